import { Observable, Subscriber } from './observable';

export interface Options {
  limit?: number;
  name: string;
}

interface Closer {
  close(): void;
}

export abstract class Buffer<T> extends Observable<T> {
  private readonly values: T[] = [];

  constructor(private readonly source: Observable<T>, private readonly closer?: Closer) {
    super();
  }

  push(value: unknown): void {
    this.values.push(value as T);
    if (this.values.length > 3) {
      this.closer?.close();
    }
  }

  finish(): void {
    const all = this.values as readonly T[];
    all.forEach((value) => this.source?.next?.(value));
    this.source?.complete();
    this.closer.finalize(all, () => undefined);
  }
}

export function count<T>(source: Observable<T>, options: Options): Observable<number> {
  return new Observable<number>((subscriber: Subscriber<number>) => {
    let seen = 0;
    source.subscribe({ next: () => seen++, complete: () => subscriber.next(seen) });
  });
}

export function never(options: Options): Observable<never> {
  return new Observable(() => {});
}

function inner(value: string | null) {
  return value?.trim();
}

class Single<T> extends Buffer<T> {
  push(value: unknown): void {
    super.push(value);
  }
}
