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
}

// Change is one change of a slot: pods of a kind were added or removed (By counts them), or something else
// happened, with the kind NoKind.
type Change struct{ Slot, Kind, By int32 }

func (j *journal) grow() {
	j.ChangedAt = append(j.ChangedAt, 0)
	j.ObjectChangedAt = append(j.ObjectChangedAt, 0)
}

// Record records a change at the next time. It overwrites the oldest one.
func (j *journal) Record(m Change) {
	j.Now++
	j.Recent[j.Now%JournalSize] = m
	j.ChangedAt[m.Slot] = j.Now
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
