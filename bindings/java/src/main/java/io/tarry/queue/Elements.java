package io.tarry.queue;

import java.util.Arrays;
import java.util.concurrent.Delayed;

/**
 * The elements of a TarryDelayQueue, each in a slot with a number. They are found by equality through a table, and those that are near are in a
 * heap, the first by compareTo on top. Under the lock of its queue.
 */
final class Elements<E extends Delayed> {
    private static final int NONE = -1;
    /** In place of a place in the heap: the element waits for its timer. */
    private static final int FAR = -1;

    private Object[] elements = new Object[16];
    private int[] hashes = new int[16];
    /** The next slot of the same bucket, or of the free ones. */
    private int[] next = new int[16];
    private int[] places = new int[16];
    private int[] buckets = empty(16);
    private int used;
    private int free = NONE;
    private int size;

    private int[] heap = new int[16];
    private int nearCount;

    private static int[] empty(int count) {
        int[] made = new int[count];
        Arrays.fill(made, NONE);
        return made;
    }

    private int bucket(int hash) {
        return (hash ^ hash >>> 16) & buckets.length - 1;
    }

    int size() {
        return size;
    }

    @SuppressWarnings("unchecked")
    E at(int slot) {
        return (E) elements[slot];
    }

    // ---- slots ----

    /** Its slot; it is far. */
    int add(E element, int hash) {
        int slot = free;
        if (slot == NONE) {
            if (used == elements.length) {
                grow();
            }
            slot = used++;
        } else {
            free = next[slot];
        }
        elements[slot] = element;
        hashes[slot] = hash;
        places[slot] = FAR;
        int bucket = bucket(hash);
        next[slot] = buckets[bucket];
        buckets[bucket] = slot;
        size++;
        return slot;
    }

    private void grow() {
        int count = Math.multiplyExact(elements.length, 2);
        int[] table = empty(count);
        elements = Arrays.copyOf(elements, count);
        hashes = Arrays.copyOf(hashes, count);
        next = Arrays.copyOf(next, count);
        places = Arrays.copyOf(places, count);
        buckets = table;
        for (int slot = 0; slot < used; slot++) { // no slot is free
            int bucket = bucket(hashes[slot]);
            next[slot] = buckets[bucket];
            buckets[bucket] = slot;
        }
    }

    /** Takes it out of all there is. */
    void remove(int slot) {
        if (isNear(slot)) {
            removeNear(places[slot]);
        }
        int bucket = bucket(hashes[slot]);
        if (buckets[bucket] == slot) {
            buckets[bucket] = next[slot];
        } else {
            int before = buckets[bucket];
            while (next[before] != slot) {
                before = next[before];
            }
            next[before] = next[slot];
        }
        elements[slot] = null;
        next[slot] = free;
        free = slot;
        size--;
    }

    /** The slot of an equal element, or of this very element; -1 if there is no such element. */
    int find(Object wanted, boolean isSame) {
        if (size == 0) {
            return NONE;
        }
        int hash = wanted.hashCode();
        for (int slot = buckets[bucket(hash)]; slot != NONE; slot = next[slot]) {
            Object element = elements[slot];
            if (element == wanted || (!isSame && hashes[slot] == hash && wanted.equals(element))) {
                return slot;
            }
        }
        return NONE;
    }

    boolean isNear(int slot) {
        return places[slot] != FAR;
    }

    void clear() {
        Arrays.fill(elements, 0, used, null);
        Arrays.fill(buckets, NONE);
        used = size = nearCount = 0;
        free = NONE;
    }

    /** The first of all elements by compareTo; null if the queue is empty. */
    E least() {
        E least = null;
        for (int slot = 0; slot < used; slot++) {
            E element = at(slot);
            if (element != null && (least == null || element.compareTo(least) < 0)) {
                least = element;
            }
        }
        return least;
    }

    /** The near ones as they lie in the heap, then the others. */
    Object[] toArray() {
        Object[] found = new Object[size];
        int count = 0;
        for (int i = 0; i < nearCount; i++) {
            found[count++] = elements[heap[i]];
        }
        for (int slot = 0; slot < used; slot++) {
            if (elements[slot] != null && !isNear(slot)) {
                found[count++] = elements[slot];
            }
        }
        return found;
    }

    // ---- the heap ----

    E firstNear() {
        return nearCount == 0 ? null : at(heap[0]);
    }

    void removeFirstNear() {
        remove(heap[0]);
    }

    /** Whether it is the first now. Where compareTo throws nothing has changed. */
    boolean addNear(int slot) {
        if (nearCount == heap.length) {
            heap = Arrays.copyOf(heap, Math.multiplyExact(heap.length, 2));
        }
        int place = placeAbove(nearCount, at(slot));
        for (int at = nearCount; at > place; at = at - 1 >>> 1) {
            move(heap[at - 1 >>> 1], at);
        }
        move(slot, place);
        nearCount++;
        return place == 0;
    }

    private void move(int slot, int place) {
        heap[place] = slot;
        places[slot] = place;
    }

    /** Returns the height to which an element rises that begins at this place. */
    private int placeAbove(int place, E element) {
        while (place > 0) {
            int parent = place - 1 >>> 1;
            if (element.compareTo(at(heap[parent])) >= 0) {
                break;
            }
            place = parent;
        }
        return place;
    }

    private void removeNear(int place) {
        int removed = heap[place];
        int moved = heap[--nearCount];
        places[removed] = FAR;
        if (place == nearCount) {
            return;
        }
        sink(moved, place);
        if (heap[place] == moved) {
            int above = placeAbove(place, at(moved));
            for (int at = place; at > above; at = at - 1 >>> 1) {
                move(heap[at - 1 >>> 1], at);
            }
            move(moved, above);
        }
    }

    private void sink(int slot, int place) {
        E element = at(slot);
        for (int child; (child = 2 * place + 1) < nearCount; place = child) {
            if (child + 1 < nearCount && at(heap[child + 1]).compareTo(at(heap[child])) < 0) {
                child++;
            }
            if (element.compareTo(at(heap[child])) <= 0) {
                break;
            }
            move(heap[child], place);
        }
        move(slot, place);
    }
}
