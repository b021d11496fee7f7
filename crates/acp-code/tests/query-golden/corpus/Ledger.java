package corpus;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

public class Ledger {
    private final Map<String, Integer> entries = new HashMap<>();
    private final Object lock = new Object();

    public void add(String name, int amount) {
        Objects.requireNonNull(name, "name");
        if (amount < 0) {
            throw new IllegalArgumentException("amount: " + amount);
        }
        synchronized (lock) {
            entries.merge(name, amount, Integer::sum);
        }
    }

    public Map<String, Integer> view() {
        synchronized (this) {
            return Collections.unmodifiableMap(entries);
        }
    }

    public synchronized int total() {
        int total = 0;
        for (int amount : entries.values()) {
            total += amount;
        }
        for (Map.Entry<String, Integer> entry : entries.entrySet()) {
            System.out.println(entry.getKey() + ": " + entry.getValue());
        }
        return total;
    }

    public Thread printer(List<String> names) {
        // System.out.println(names) in a comment is no match
        List<String> copy = new ArrayList<>(Objects.requireNonNull(names));
        if (copy.isEmpty()) throw new IllegalArgumentException();
        return new Thread(() -> {
            for (String name : copy) {
                System.out.println(name);
            }
        }, "printer");
    }
}
