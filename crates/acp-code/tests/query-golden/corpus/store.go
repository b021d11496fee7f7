package store

import (
	"fmt"
	"runtime"
	"sync"
)

type Store struct {
	mu    sync.Mutex
	items map[string]int
}

func New() *Store {
	s := &Store{items: make(map[string]int)}
	runtime.SetFinalizer(s, func(s *Store) { s.Close() })
	return s
}

func (s *Store) Put(name string, count int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := check(name); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if old, ok := s.items[name]; ok {
		count += old
	}
	s.items[name] = count
	return nil
}

func (s *Store) Load(path string) (int, error) {
	text, err := read(path)
	if err != nil {
		return 0, err
	}
	n, err := parse(text)
	if err != nil {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		n = 0
		return n, err
	}
	return n, nil
}

func (s *Store) Watch(done chan struct{}) {
	go func() {
		<-done
		s.Close()
	}()
	go s.Close()
	seen := make(map[string]bool)
	if _, ok := seen["x"]; ok {
		fmt.Println(fmt.Sprintf("%d: %s", 1, fmt.Sprintf("inner %v", seen)))
	}
}

func (s *Store) Close() {
	list := make([]int, 0)
	_ = list
	defer s.mu.Unlock()
	s.mu.Lock()
}
