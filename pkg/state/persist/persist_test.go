package persist_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state/persist"
)

// version is one version of both structures, with the maps that they stand for.
type version struct {
	array persist.Array[int]
	index persist.Index
	// values are the elements of the array that are set, numbers the numbers under each half of a hash.
	values  map[uint32]int
	numbers map[uint32][]uint32
}

// clone returns a version that can be edited; the structures need no copy.
func (v version) clone() version {
	v.values, v.numbers = maps.Clone(v.values), maps.Clone(v.numbers)
	return v
}

// hashes are few, so that numbers collide, in both halves of the hash and in the one that the index keeps.
var hashes = []uint64{0, 1, 2, 3, 1 << 32, 1<<32 | 1, 7 << 29, 12345, 1<<31 | 12345, ^uint64(0)}

// place draws the number of an element: close together, or far apart, so that the array has gaps at every level.
func place(t *rapid.T) uint32 {
	ranges := rapid.OneOf(rapid.Uint32Range(0, 70), rapid.Uint32Range(0, 3000), rapid.Uint32Range(0, 100_000))
	return ranges.Draw(t, "place")
}

// edit makes random changes.
func (v *version) edit(t *rapid.T, edit persist.Edit) {
	for range rapid.IntRange(0, 30).Draw(t, "changes") {
		i := place(t)
		hash := rapid.SampledFrom(hashes).Draw(t, "hash")
		if rapid.Bool().Draw(t, "spread") {
			hash = uint64(i) * 0x9E3779B97F4A7C15
		}
		half := uint32(hash)
		switch {
		case rapid.Bool().Draw(t, "array"):
			v.values[i] = rapid.IntRange(0, 5).Draw(t, "value")
			v.array.Set(i, v.values[i], edit)
		case slices.Contains(v.numbers[half], i):
			v.index.Remove(hash, i, edit)
			v.numbers[half] = slices.DeleteFunc(slices.Clone(v.numbers[half]), func(n uint32) bool { return n == i })
		case rapid.IntRange(0, 9).Draw(t, "remove what is not there") == 0:
			v.index.Remove(hash, i, edit)
		default:
			v.index.Add(hash, i, edit)
			v.numbers[half] = append(slices.Clone(v.numbers[half]), i)
		}
	}
}

// check compares the structures with the maps.
func (v *version) check(t *rapid.T) {
	for _, i := range []uint32{0, 31, 32, 1023, 1024, 32_767, 32_768, 99_999, 1 << 20, ^uint32(0)} {
		if got := v.array.At(i); got != v.values[i] {
			t.Fatalf("element %d is %d, want %d", i, got, v.values[i])
		}
	}
	for i, want := range v.values {
		if got := v.array.At(i); got != want {
			t.Fatalf("element %d is %d, want %d", i, got, want)
		}
	}
	for half, want := range v.numbers {
		hash := uint64(half)
		var got []uint32
		v.index.Find(hash, func(n uint32) bool {
			got = append(got, n)
			return false
		})
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Fatalf("under hash %x are %v, want %v", half, got, want)
		}
		for _, n := range want {
			if found, ok := v.index.Find(hash, func(m uint32) bool { return m == n }); !ok || found != n {
				t.Fatalf("hash %x: %d is not found", half, n)
			}
		}
	}
}

// After any edits, some of which are dropped, each version shows what it showed when its edit ended.
func TestVersionsDoNotChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions := []version{{values: map[uint32]int{}, numbers: map[uint32][]uint32{}}}
		for edit := range rapid.IntRange(1, 25).Draw(t, "edits") {
			next := versions[len(versions)-1].clone()
			next.edit(t, persist.Edit(edit+1))
			if rapid.IntRange(0, 4).Draw(t, "dropped") > 0 {
				versions = append(versions, next)
			}
		}
		for i := range versions {
			versions[i].check(t)
		}
	})
}

// An index of many numbers finds each in a bucket of bounded size, and none after it was removed.
func TestIndexGrows(t *testing.T) {
	const count = 20_000
	var x persist.Index
	hash := func(i uint32) uint64 { return uint64(i+1) * 0x9E3779B97F4A7C15 >> 7 }
	for i := range uint32(count) {
		x.Add(hash(i), i, persist.Edit(i/100+1))
	}
	longest := 0
	for i := range uint32(count) {
		compared := 0
		if _, ok := x.Find(hash(i), func(n uint32) bool { compared++; return n == i }); !ok {
			t.Fatalf("%d is not found", i)
		}
		longest = max(longest, compared)
	}
	if longest > 3 {
		t.Errorf("%d numbers were compared for one, want 3 at most with hashes like these", longest)
	}
	for i := range uint32(count) {
		x.Remove(hash(i), i, persist.Edit(count+i))
	}
	for i := range uint32(count) {
		if _, ok := x.Find(hash(i), func(n uint32) bool { return n == i }); ok {
			t.Fatalf("%d is still found", i)
		}
	}
}
