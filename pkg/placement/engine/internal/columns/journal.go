package columns

// JournalSize is how many changes a class may be behind and still catch up one by one. A class that is further
// behind scans all slots for those that changed. With 12 bytes a change, the journal takes 48 KiB.
const JournalSize = 1 << 12

// journal records when each slot changed. Its clock counts changes, and starts at 0: time 0 is before every
// change, so that a class whose time is 0 has seen nothing.
type journal struct {
	// Now is the time of the last change; Recent holds the last JournalSize changes, that of time t at t %
	// JournalSize.
	Now    uint64
	Recent [JournalSize]Change
	// ChangedAt is when anything about a slot last changed; ObjectChangedAt is when its Node object last changed.
	ChangedAt, ObjectChangedAt []uint64
	// Swaps counts the pods that were replaced by a version that counts like them, and SwappedAt is the count at the
	// last of them on each slot. They do not move the journal, as no class has to evaluate the node again; what refers
	// to the pods themselves compares both.
	Swaps     uint64
	SwappedAt []uint64
}

// Time is a point in the history of a slot, swaps included. The zero value is before everything.
type Time struct{ changes, swaps uint64 }

// Time returns the present.
func (j *journal) Time() Time { return Time{j.Now, j.Swaps} }

// IsCurrent reports whether nothing about a slot has changed since a time, and no pod on it was swapped.
func (j *journal) IsCurrent(slot int, then Time) bool {
	return then.changes > 0 && then.changes >= j.ChangedAt[slot] && then.swaps >= j.SwappedAt[slot]
}

// Change is one change of a slot: pods of a kind were added or removed (By counts them), or something else
// happened, with the kind NoKind.
type Change struct{ Slot, Kind, By int32 }

func (j *journal) grow() {
	j.ChangedAt = append(j.ChangedAt, 0)
	j.ObjectChangedAt = append(j.ObjectChangedAt, 0)
	j.SwappedAt = append(j.SwappedAt, 0)
}

// Record records a change at the next time. It overwrites the oldest one.
func (j *journal) Record(m Change) {
	j.Now++
	j.Recent[j.Now%JournalSize] = m
	j.ChangedAt[m.Slot] = j.Now
}

// recordSwap records that a pod of a slot was replaced by a version that counts like it.
func (j *journal) recordSwap(slot int) {
	j.Swaps++
	j.SwappedAt[slot] = j.Swaps
}

// recordObject records that the Node object of a slot changed, including the first and the last.
func (j *journal) recordObject(slot int) {
	j.Record(Change{Slot: int32(slot), Kind: NoKind})
	j.ObjectChangedAt[slot] = j.Now
}

// IsTooFar reports whether there are too many changes since a time to process them one by one: the oldest have
// been overwritten, or there are more changes than slots, so that a scan is cheaper.
func (j *journal) IsTooFar(then uint64) bool {
	behind := j.Now - then
	return behind >= JournalSize || behind > uint64(len(j.ChangedAt))
}
