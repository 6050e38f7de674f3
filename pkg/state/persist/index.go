package persist

import (
	"math/bits"
	"slices"
)

// Index is a persistent multimap from hashes to numbers. The zero value is empty. Only the lower half of a hash is
// kept, so that an entry takes 8 bytes without a pointer: the garbage collector does not look into buckets.
//
// It is a linear hash table (Litwin, 1980) with an Array of buckets: when the entries outgrow them, one bucket is
// split, so that no addition pays for a table that doubles. Buckets are not merged again: after a deletion the table
// is as long as it was at its fullest.
type Index struct {
	buckets Array[[]entry]
	// count is the number of buckets, entries that of entries in all of them.
	count, entries uint32
}

// entry is half a hash, and the number below it.
type entry uint64

func entryOf(hash uint64, number uint32) entry { return entry(hash<<32 | uint64(number)) }

func (e entry) hash() uint32   { return uint32(e >> 32) }
func (e entry) number() uint32 { return uint32(e) }

// perBucket is how many entries the average bucket has. A look-up reads a bucket from its beginning, half of it on
// average: one or two cache lines. An addition copies it.
const perBucket = 12

// bucketOf returns the bucket of a hash: its lowest bits, one more of them in the buckets that have been split
// already.
func (x *Index) bucketOf(hash uint32) uint32 {
	if x.count == 0 {
		return 0
	}
	width := bits.Len32(x.count) // of the numbers of buckets, once all are split
	b := hash & (1<<width - 1)
	if b >= x.count {
		b &= 1<<(width-1) - 1
	}
	return b
}

// Find returns the first number under a hash that is the wanted one.
func (x *Index) Find(hash uint64, wanted func(number uint32) bool) (number uint32, ok bool) {
	for _, e := range x.buckets.At(x.bucketOf(uint32(hash))) {
		if e.hash() == uint32(hash) && wanted(e.number()) {
			return e.number(), true
		}
	}
	return 0, false
}

// Add adds a number under a hash, as part of an edit. It must not be there.
func (x *Index) Add(hash uint64, number uint32, edit Edit) {
	x.count = max(x.count, 1)
	b := x.bucketOf(uint32(hash))
	before := x.buckets.At(b)
	after := append(make([]entry, 0, len(before)+1), before...)
	x.buckets.Set(b, append(after, entryOf(hash, number)), edit)
	if x.entries++; x.entries > x.count*perBucket {
		x.split(edit)
	}
}

// Remove removes a number from under a hash, as part of an edit; it does nothing if it is not there.
func (x *Index) Remove(hash uint64, number uint32, edit Edit) {
	b := x.bucketOf(uint32(hash))
	before := x.buckets.At(b)
	i := slices.Index(before, entryOf(hash, number))
	if i < 0 {
		return
	}
	var after []entry
	if len(before) > 1 {
		after = append(append(make([]entry, 0, len(before)-1), before[:i]...), before[i+1:]...)
	}
	x.buckets.Set(b, after, edit)
	x.entries--
}

// split adds a bucket, and moves to it the entries of the bucket that its number extends by one bit.
func (x *Index) split(edit Edit) {
	added := x.count
	source := added &^ (1 << (bits.Len32(added) - 1))
	all := x.buckets.At(source)
	x.count++
	moves := func(e entry) bool { return x.bucketOf(e.hash()) == added }
	moving := 0
	for _, e := range all {
		if moves(e) {
			moving++
		}
	}
	stay, move := make([]entry, 0, len(all)-moving), make([]entry, 0, moving)
	for _, e := range all {
		if moves(e) {
			move = append(move, e)
		} else {
			stay = append(stay, e)
		}
	}
	x.buckets.Set(source, stay, edit)
	x.buckets.Set(added, move, edit)
}
