package intern_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/berth-scheduler/berth/pkg/state/intern"
)

type value struct{ content string }

// collections bounds how often a test triggers a garbage collection before it gives up: cleanups run some time
// after the collection that found a value unreachable.
const collections = 200

func TestOnePerKey(t *testing.T) {
	var table intern.Table[value]
	get := func(key string) *value {
		return table.Get([]byte(key), func() *value { return &value{content: key} })
	}
	a, b, again := get("a"), get("b"), get("a")
	if a != again || a == b || a.content != "a" || b.content != "b" {
		t.Errorf("got %p %v, %p %v and %p", a, a, b, b, again)
	}
	if table.Len() != 2 {
		t.Errorf("%d values, want 2", table.Len())
	}
	runtime.KeepAlive(b)
}

// TestTryGet: a failure is reported and not remembered.
func TestTryGet(t *testing.T) {
	var table intern.Table[value]
	want := errors.New("cannot be built")
	v, err := table.TryGet([]byte("a"), func() (*value, error) { return nil, want })
	if v != nil || !errors.Is(err, want) {
		t.Errorf("got %v, %v, want no value and %v", v, err, want)
	}
	v, err = table.TryGet([]byte("a"), func() (*value, error) { return &value{content: "a"}, nil })
	if err != nil || v.content != "a" || table.Len() != 1 {
		t.Errorf("got %v, %v and %d values, want a value", v, err, table.Len())
	}
	runtime.KeepAlive(v)
}

// TestForgets: a value without references is forgotten, a referenced one stays, and a forgotten one can be created
// again.
func TestForgets(t *testing.T) {
	var table intern.Table[value]
	get := func(key string) *value {
		return table.Get([]byte(key), func() *value { return &value{content: key} })
	}
	held := get("held")
	for i := range 1000 {
		get(fmt.Sprint(i))
	}
	for range collections {
		runtime.GC()
		if table.Len() == 1 {
			break
		}
		runtime.Gosched()
	}
	if table.Len() != 1 {
		t.Fatalf("%d values are still in the table, want the one held", table.Len())
	}
	if get("held") != held {
		t.Error("the value held is another one now")
	}
	if back := get("7"); back.content != "7" {
		t.Errorf("a value that was gone came back as %q", back.content)
	}
}

// TestManyAtOnce: all callers that ask for a key at the same time get the same value, while other values are
// created and forgotten. It finds races under -race.
func TestManyAtOnce(t *testing.T) {
	const callers, rounds, keys = 8, 200, 4
	var table intern.Table[value]
	for round := range rounds {
		key := fmt.Sprint(round % keys)
		got := make([]*value, callers)
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				got[i] = table.Get([]byte(key), func() *value { return &value{content: key} })
			})
		}
		group.Wait()
		for _, v := range got {
			if v != got[0] || v.content != key {
				t.Fatalf("round %d: two values for one key, %p and %p", round, v, got[0])
			}
		}
		if round%keys == 0 {
			runtime.GC()
		}
	}
}
