package intern

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"weak"
)

// Table holds values by the bytes they stand for. The zero value is empty and ready to use. It is safe for
// concurrent use.
//
// It keeps the SHA-256 sum of the bytes instead of the bytes, so that a value that occurs only once costs little
// more than itself.
type Table[V any] struct {
	mu struct {
		sync.Mutex
		values map[sum]weak.Pointer[V]
	}
}

// sum identifies content. Two contents with one sum would be taken for the same, which SHA-256 makes practically
// impossible even for content that a user chooses.
type sum = [sha256.Size]byte

// Get returns the value that content stands for: the existing one if it is still referenced, else what build
// returns. build must be a function of content alone, since it is undefined which of several callers builds. It
// runs without a lock, its result may be discarded when two callers build at the same time, and it must not return
// nil. Zero-size values cannot be distinguished.
func (t *Table[V]) Get(content []byte, build func() *V) *V {
	v, _ := t.TryGet(content, func() (*V, error) { return build(), nil })
	return v
}

// TryGet is Get with a build that may fail; then nothing is kept.
func (t *Table[V]) TryGet(content []byte, build func() (*V, error)) (*V, error) {
	key := sha256.Sum256(content)
	t.mu.Lock()
	v := t.mu.values[key].Value()
	t.mu.Unlock()
	if v != nil {
		return v, nil
	}
	v, err := build()
	if err != nil {
		return nil, err
	}
	return t.put(key, v), nil
}

// put makes v the value of a key unless the key has one by now.
func (t *Table[V]) put(key sum, v *V) *V {
	t.mu.Lock()
	defer t.mu.Unlock()
	if there := t.mu.values[key].Value(); there != nil {
		return there
	}
	if t.mu.values == nil {
		t.mu.values = map[sum]weak.Pointer[V]{}
	}
	t.mu.values[key] = weak.Make(v)
	runtime.AddCleanup(v, t.forget, key)
	return v
}

// forget drops a key whose value is gone, and keeps one that has been built again since.
func (t *Table[V]) forget(key sum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.values[key].Value() == nil {
		delete(t.mu.values, key)
	}
}

// Len returns the number of values held or not yet forgotten.
func (t *Table[V]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.values)
}
