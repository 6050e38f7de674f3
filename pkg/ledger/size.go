package ledger

import (
	"fmt"
	"math/bits"
)

// The sizes below are exact: the number of bytes that the codec writes, computed without writing them. A placement
// computes the size of its document before anything is sent, several thousand times a second.

const (
	// MaxTxnBytes bounds a transaction as Txn.Bytes counts it. etcd refuses a request of more than 1.5 MiB
	// (--max-request-bytes), and its client sends at most 2 MiB. The rest of the 1.5 MiB is for the key prefix,
	// which Bytes does not count: it occurs up to three times for each of MaxTxnOps operations.
	MaxTxnBytes = 1 << 20
	// MaxEntryBytes bounds one entry with its growth, so that every document without other entries has room for it.
	// The rest of MaxDocBytes is for the names and high-waters of the document.
	MaxEntryBytes = MaxDocBytes - 4<<10
	// MaxMemberID bounds the ID of a member. The ID of the member that sends an eviction is written into the claim
	// on the victim.
	MaxMemberID = 128
)

const (
	// opBytes is an upper bound for what surrounds a key and a value in a request.
	opBytes = 32
	// uidBytes is the length of a UID that Kubernetes makes.
	uidBytes = 36
	// laterHighWaters is room for high-waters of kinds that a later version may add.
	laterHighWaters = 128
	// varintBytes is the length of the longest varint, fixedBytes that of a fixed-length number.
	varintBytes, fixedBytes = 10, 8
	// causeBytes is the length of the cause of a fence.
	causeBytes = 2 + 1
)

// raisedKinds are the kinds whose high-water in a document a step may raise.
var raisedKinds = []string{KindPod, KindNode, KindBudget, KindClaim}

// EntryTooLargeError reports that a pod needs an entry for which no document has room, on any node.
type EntryTooLargeError struct {
	PodUID, Namespace, Name string
	// Bytes is the size of the entry including its possible growth. Ports, Volumes and Devices count its parts that
	// have no bound of their own.
	Bytes                   int
	Ports, Volumes, Devices int
}

func (e *EntryTooLargeError) Error() string {
	return fmt.Sprintf("ledger: the reservation of pod %s/%s takes %d bytes (%d host ports, %d volume claims, "+
		"%d device claims), want at most %d bytes",
		e.Namespace, e.Name, e.Bytes, e.Ports, e.Volumes, e.Devices, MaxEntryBytes)
}

// CheckSize returns an *EntryTooLargeError unless a document without other entries has room for the entry.
func (e *Entry) CheckSize() error {
	bytes := e.Bytes()
	if n := bytes + e.growth(bytes); n > MaxEntryBytes {
		return &EntryTooLargeError{
			PodUID: e.PodUID, Namespace: e.Namespace, Name: e.Name, Bytes: n,
			Ports: len(e.Ports), Volumes: len(e.Volumes), Devices: len(e.Devices),
		}
	}
	return nil
}

// HasRoom reports whether a document has room for one more entry of an ordinary size.
func (d NodeDoc) HasRoom() bool {
	const ordinary = 2 << 10
	bytes, growth := d.Extent()
	return len(d.Entries) < MaxEntries && bytes+growth+ordinary <= MaxDocBytes
}

// CheckRoom refuses a document to which something was added, unless every later step of its entries will fit as well:
// those steps may not fail for lack of room.
func (d NodeDoc) CheckRoom() error {
	bytes, growth := d.Extent()
	if len(d.Entries) > MaxEntries || bytes+growth > MaxDocBytes {
		return &DocTooLargeError{
			NodeUID: d.NodeUID, NodeName: d.NodeName, Entries: len(d.Entries), Bytes: bytes, Growth: growth,
		}
	}
	return nil
}

// Weight is the document's share of MaxTxnBytes when it is compared and put, including what a node's first document
// requires in addition.
func (d NodeDoc) Weight() int {
	n := KeyWeight(len(PrefixNode)+len(d.NodeUID)) + d.Bytes()
	if d.Revision == 0 {
		n += KeyWeight(len(PrefixIncarnation)+len(d.NodeName)) + len(d.NodeUID) + 3*varintBytes + KeyWeight(len(KeyFloor))
	}
	return n
}

// Weight is the document's share of MaxTxnBytes when it is compared and put.
func (x ExclusiveDoc) Weight() int {
	return KeyWeight(len(x.Key)) + x.Bytes() + KeyWeight(len(KeyFloor))
}

// KeyWeight is the size of a key that is compared, put, and counted once more for the read after a failure.
func KeyWeight(key int) int { return 3 * (key + opBytes) }

// Bytes returns the put's share of MaxTxnBytes.
func (p Put) Bytes() int { return len(p.Key) + len(p.Value) + opBytes }

// Bytes returns the transaction's size as MaxTxnBytes bounds it.
func (t Txn) Bytes() int {
	n := 0
	for _, c := range t.Compares {
		n += 2 * (len(c.Key) + opBytes) // once more for the read after a failure, which a store may send along
	}
	for _, p := range t.Puts {
		n += p.Bytes()
	}
	for _, key := range t.Deletes {
		n += len(key) + opBytes
	}
	return n
}

// Extent returns the length of what EncodeNodeDoc writes, and how much it may still grow by steps that add no entry
// to the document: growth of its entries, high-waters, and another node that takes over the node's name. No such
// step makes the sum of both larger.
func (d NodeDoc) Extent() (bytes, growth int) {
	bytes = d.headBytes()
	growth = growthOf(d.HW) + max(0, textBytes(16, uidBytes)-textBytes(16, len(d.SupersededBy)))
	for i := range d.Entries {
		n := d.Entries[i].Bytes()
		bytes += partBytes(5, n)
		growth += d.Entries[i].growth(n)
	}
	return bytes, growth
}

func growthOf(hw map[string]uint64) int {
	n := laterHighWaters
	for _, kind := range raisedKinds {
		n += partBytes(4, textBytes(1, len(kind))+1+varintBytes)
		if rv, ok := hw[kind]; ok {
			n -= highWaterBytes(kind, rv)
		}
	}
	return n
}

// growth returns how much an entry of that many bytes may still grow through the steps of its life: a hold is
// promoted and asked back, a reservation is fenced, a claim that was created for it gets a UID, a victim is marked, and
// its eviction is declined.
func (e *Entry) growth(bytes int) int {
	n := 0
	switch e.Role {
	case RoleVictim:
		n += 1 + 1 - numberBytes(5, uint64(e.State)) // Evicting
		n += max(0, textBytes(9, MaxMemberID)-textBytes(9, len(e.Shard)))
		n += boolBytes(36, true) - boolBytes(36, e.Declined)
	case RoleReservation:
		n += boolBytes(15, true) - boolBytes(15, e.Wanted) + causeBytes - numberBytes(34, uint64(e.Cause))
		if e.State == Held { // what Promote writes; claims are picked again there, and checked
			n += 1 + varintBytes - numberBytes(7, e.PodRV)
			n += fixedFieldBytes(31, 1) - fixedFieldBytes(31, e.PlacementHash) + boolBytes(33, true) - boolBytes(33, e.Delegated)
		}
		for i := range e.Devices {
			if p := &e.Devices[i]; p.Unmade() { // what NameClaim writes
				n += longer(p.bytes(), textBytes(2, uidBytes)+1+varintBytes-numberBytes(3, p.ClaimRV))
			}
		}
	case RoleKeeper, RoleMove: // they lose dependents, or are dropped
	}
	return longer(bytes, n)
}

// longer returns how much a message grows together with its length prefix, when its content grows from bytes by n.
func longer(bytes, n int) int { return n + varint(uint64(bytes+n)) - varint(uint64(bytes)) }

// Bytes returns the length of what EncodeNodeDoc writes.
func (d NodeDoc) Bytes() int {
	n := d.headBytes()
	for i := range d.Entries {
		n += partBytes(5, d.Entries[i].Bytes())
	}
	return n
}

// headBytes returns the same without the entries.
func (d NodeDoc) headBytes() int {
	return numberBytes(1, SchemaVersion) + textBytes(2, len(d.NodeUID)) + textBytes(3, len(d.NodeName)) +
		textBytes(16, len(d.SupersededBy)) + highWatersBytes(d.HW) + len(d.Later)
}

// highWatersBytes returns the length of all high-waters of a document. Their field number takes one byte in all
// documents.
func highWatersBytes(hw map[string]uint64) (n int) {
	for kind, rv := range hw {
		n += highWaterBytes(kind, rv)
	}
	return n
}

func highWaterBytes(kind string, rv uint64) int {
	return partBytes(4, textBytes(1, len(kind))+numberBytes(2, rv))
}

// Bytes returns the length of an entry as codec.EntryToProto builds it.
func (e *Entry) Bytes() int {
	n := podBytes(1, 18, e.PodUID) + textBytes(2, len(e.Namespace)) + textBytes(3, len(e.Name)) +
		numberBytes(4, uint64(e.Role)) + numberBytes(5, uint64(e.State)) +
		numberBytes(6, uint64(uint32(e.Priority<<1)^uint32(e.Priority>>31))) + numberBytes(7, e.PodRV) +
		fixedFieldBytes(8, uint64(e.Token)) + textBytes(9, len(e.Shard)) + textBytes(10, len(e.SchedulerName)) +
		numberBytes(12, uint64(e.NonZeroCPU)) + numberBytes(13, uint64(e.NonZeroMemory)) +
		boolBytes(15, e.Wanted) + textBytes(16, len(e.Gang)) + textBytes(17, len(e.Plan)) +
		numberBytes(30, uint64(uint32(e.GroupPartition))) + fixedFieldBytes(31, e.PlacementHash) +
		boolBytes(33, e.Delegated) +
		numberBytes(34, uint64(e.Cause)) + numberBytes(35, uint64(e.NotAfterMillis())) +
		boolBytes(36, e.Declined) + len(e.Later)
	for name, amount := range e.Requests {
		n += partBytes(11, textBytes(1, len(name))+numberBytes(2, uint64(amount)))
	}
	for i := range e.Ports {
		p := &e.Ports[i]
		n += partBytes(14, textBytes(1, len(p.IP))+textBytes(2, len(p.Protocol))+numberBytes(3, uint64(int64(p.Port))))
	}
	for i := range e.Devices {
		n += partBytes(19, e.Devices[i].bytes())
	}
	for i := range e.Dependents {
		x := &e.Dependents[i]
		n += partBytes(27, podBytes(1, 2, x.PodUID)+numberBytes(3, x.PodRV)+len(x.Later))
	}
	for _, uid := range e.Budgets {
		n += partBytes(28, len(uid))
	}
	if e.Replacement != (Replacement{}) {
		n += partBytes(29, textBytes(1, len(e.Replacement.Owner))+textBytes(2, len(e.Replacement.Template)))
	}
	for i := range e.Volumes {
		v := &e.Volumes[i]
		n += partBytes(32, textBytes(1, len(v.Claim))+textBytes(2, len(v.Volume))+textBytes(3, len(v.ClaimUID))+
			boolBytes(4, v.HasVolume)+len(v.Later))
	}
	return n
}

func (p *DevicePick) bytes() int {
	n := textBytes(1, len(p.Claim)) + textBytes(2, len(p.ClaimUID)) + numberBytes(3, p.ClaimRV) +
		textBytes(4, len(p.Allocation)) + textBytes(5, len(p.Spec)) + textBytes(6, len(p.PodStatus)) + len(p.Later)
	for _, hash := range p.ConfigHashes {
		n += partBytes(7, len(hash))
	}
	return n
}

// Bytes returns the length of what EncodeExclusive writes.
func (x ExclusiveDoc) Bytes() int {
	n := numberBytes(1, SchemaVersion) + highWatersBytes(x.HW) + len(x.Later)
	for i := range x.Holders {
		h := &x.Holders[i]
		m := podBytes(1, 2, h.PodUID) + fixedFieldBytes(3, uint64(h.Token)) + textBytes(4, len(h.NodeUID)) + len(h.Later)
		for _, item := range h.Items {
			m += partBytes(5, len(item))
		}
		n += partBytes(3, m)
	}
	return n
}

// CheckRoom refuses a document to which something was added, unless its high-waters may still grow.
func (x ExclusiveDoc) CheckRoom() error {
	bytes, growth := x.Bytes(), growthOf(x.HW)
	if tooLarge(len(x.Holders), bytes+growth) {
		return &DocTooLargeError{Key: x.Key, Entries: len(x.Holders), Bytes: bytes, Growth: growth}
	}
	return nil
}

// podBytes returns the length of a pod's UID: 16 bytes in one field, or text in the other.
func podBytes(raw, text int, uid string) int {
	if isUUID(uid) {
		return textBytes(raw, 16)
	}
	return textBytes(text, len(uid))
}

// isUUID reports whether a UID has the text form of a UUID in lower-case hex, 8-4-4-4-12. Others, such as those of
// static pods, are stored as text.
func isUUID(uid string) bool {
	if len(uid) != uidBytes || uid[8] != '-' || uid[13] != '-' || uid[18] != '-' || uid[23] != '-' {
		return false
	}
	for _, g := range uuidGroups {
		for i := g[0]; i < g[1]; i++ {
			if c := uid[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// The lengths of fields in protobuf's wire form. A field that is empty or 0 is not written. partBytes is for an
// element of a list, which is always written.

func textBytes(field, length int) int {
	if length == 0 {
		return 0
	}
	return partBytes(field, length)
}

func partBytes(field, length int) int { return tagBytes(field) + varint(uint64(length)) + length }

func numberBytes(field int, v uint64) int {
	if v == 0 {
		return 0
	}
	return tagBytes(field) + varint(v)
}

func fixedFieldBytes(field int, v uint64) int {
	if v == 0 {
		return 0
	}
	return tagBytes(field) + fixedBytes
}

func boolBytes(field int, set bool) int {
	if !set {
		return 0
	}
	return tagBytes(field) + 1
}

func tagBytes(field int) int { return varint(uint64(field) << 3) }

func varint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// SchemaVersion is the version written into every value. Values of a later version are refused.
const SchemaVersion = 1

// DocTooLargeError reports a document beyond MaxEntries or MaxDocBytes: for the ledger the node (or budget, or
// pool) is full, whatever its capacity.
type DocTooLargeError struct {
	// NodeUID and NodeName are set for a node's document, Key for any other.
	NodeUID, NodeName, Key string
	Entries, Bytes         int
	// Growth is how many bytes later steps of its entries may still add: room for that is reserved.
	Growth int
}

func (e *DocTooLargeError) Error() string {
	what := "document " + e.Key
	if e.Key == "" {
		what = fmt.Sprintf("document of node %s (%s)", e.NodeName, e.NodeUID)
	}
	growth := ""
	if e.Growth > 0 {
		growth = fmt.Sprintf(", which may become %d", e.Bytes+e.Growth)
	}
	return fmt.Sprintf("ledger: %s has %d entries in %d bytes%s: want at most %d entries and %d bytes",
		what, e.Entries, e.Bytes, growth, MaxEntries, MaxDocBytes)
}

// tooLarge reports whether a document exceeds the bounds, which are the same for all kinds.
func tooLarge(entries, bytes int) bool { return entries > MaxEntries || bytes > MaxDocBytes }

// uuidGroups are the bounds of the five hex groups of a UUID's text.
var uuidGroups = [...][2]int{{0, 8}, {9, 13}, {14, 18}, {19, 23}, {24, 36}}
