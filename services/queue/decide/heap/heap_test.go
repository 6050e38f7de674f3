package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number struct {
	n  int
	at int32
}

// TestHeap puts, changes and drops random items and compares with a sorted list.
func TestHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	h := New(func(a, b *number) bool { return a.n < b.n }, func(x *number) *int32 { return &x.at })
	var all []*number
	for range 2000 {
		switch {
		case len(all) == 0 || random.IntN(3) > 0:
			x := &number{n: random.IntN(100)}
			all = append(all, x)
			h.Put(x)
		case random.IntN(2) == 0:
			x := all[random.IntN(len(all))]
			x.n = random.IntN(100)
			h.Fix(x)
		default:
			i := random.IntN(len(all))
			h.Drop(all[i])
			all = slices.Delete(all, i, i+1)
		}
		if h.Len() != len(all) {
			t.Fatalf("%d items, want %d", h.Len(), len(all))
		}
		if len(all) == 0 {
			continue
		}
		least := slices.MinFunc(all, func(a, b *number) int { return a.n - b.n })
		if h.First().n != least.n {
			t.Fatalf("first is %d, want %d", h.First().n, least.n)
		}
		for i, x := range h.All() {
			if int(x.at) != i {
				t.Fatalf("item at %d is recorded at %d", i, x.at)
			}
		}
	}
}
