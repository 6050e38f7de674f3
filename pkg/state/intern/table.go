package intern

import (
	"runtime"
	"sync"
	"weak"
)

// Table holds values by key. The zero value is empty and ready. Any goroutine may use it.
type Table[V any] struct {
	mu struct {
		sync.Mutex
		values map[string]weak.Pointer[V]
	}
}

// Get returns the value of a key: the one somebody holds, or else what build returns. build
// must be a function of key alone, since which of several callers builds is chance; it runs
// without a lock, may run in vain when two callers meet, and must not return nil. key is
// not kept.
func (t *Table[V]) Get(key []byte, build func() *V) *V {
	t.mu.Lock()
	v := t.mu.values[string(key)].Value()
	t.mu.Unlock()
	if v != nil {
		return v
	}
	return t.put(string(key), build())
}

// put makes v the value of a key unless there is one by now.
func (t *Table[V]) put(key string, v *V) *V {
	t.mu.Lock()
	defer t.mu.Unlock()
	if there := t.mu.values[key].Value(); there != nil {
		return there
	}
	if t.mu.values == nil {
		t.mu.values = map[string]weak.Pointer[V]{}
	}
	t.mu.values[key] = weak.Make(v)
	runtime.AddCleanup(v, t.forget, key)
	return v
}

// forget drops a key whose value is gone, and leaves one that has been built again since.
func (t *Table[V]) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.values[key].Value() == nil {
		delete(t.mu.values, key)
	}
}

// Len is the number of values held or not yet forgotten.
func (t *Table[V]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.values)
}
