package codec

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// A document is written again whenever one of its entries changes, and most entries stay as they are. The bytes of an
// entry are the same in both revisions then, because Marshal is deterministic. Comparing them costs a fiftieth of
// decoding them. Hashes of the entries would take less memory than the earlier value, but would have to be computed for
// every entry of every revision, which costs more than the comparison.

// entriesField is the number of NodeDoc.entries on the wire.
const entriesField protowire.Number = 5

// noEntry has no strings to take over.
var noEntry ledger.Entry

// mostFields bounds, with room to spare, the entries whose places in a value are found without an allocation.
const mostFields = 32

// Difference has the indexes of the entries in which two revisions of a document differ, ascending. The entries that it
// leaves out have the same bytes in both.
type Difference struct {
	// Removed are entries of the earlier revision that the later one does not have in the same form, Added those of the
	// later one that the earlier does not have. An entry that changed is in both.
	Removed, Added []int
}

// DecodeNodeDocAfter decodes a document like DecodeNodeDoc, by difference from another revision of it. It takes those
// entries over from before that have the same bytes there, in whatever order, and decodes the others. It also returns
// where the two differ. A before without entries or without a value is valid: then everything is decoded.
//
// The result is the same as that of DecodeNodeDoc, and so is an error: what cannot be decoded by difference is decoded
// as a whole.
func DecodeNodeDocAfter(kv ledger.KV, before *ledger.StoredDoc) (ledger.NodeDoc, Difference, error) {
	if d, difference, ok := decodeAfter(kv, before); ok {
		return d, difference, nil
	}
	d, err := DecodeNodeDoc(kv)
	return d, everything(len(before.Doc.Entries), len(d.Entries)), err
}

// Compare returns where two revisions of a document differ. Without a value of both, it reports every entry.
func Compare(before, after *ledger.StoredDoc) Difference {
	var oldRoom, newRoom [mostFields][]byte
	was, _, known := split(before.Value, oldRoom[:0])
	now, _, valid := split(after.Value, newRoom[:0])
	if !known || !valid || len(was) != len(before.Doc.Entries) || len(now) != len(after.Doc.Entries) {
		return everything(len(before.Doc.Entries), len(after.Doc.Entries))
	}
	var room [mostFields]int
	return differenceOf(len(was), match(was, now, room[:0]))
}

// everything returns the difference of documents that have no entry in common.
func everything(before, after int) (d Difference) {
	for i := range before {
		d.Removed = append(d.Removed, i)
	}
	for i := range after {
		d.Added = append(d.Added, i)
	}
	return d
}

// decodeAfter is DecodeNodeDocAfter; false if the value must be decoded as a whole, which then explains what is wrong
// with it.
func decodeAfter(kv ledger.KV, before *ledger.StoredDoc) (ledger.NodeDoc, Difference, bool) {
	var oldRoom, newRoom [mostFields][]byte
	was, oldHeader, known := split(before.Value, oldRoom[:0])
	now, newHeader, valid := split(kv.Value, newRoom[:0])
	if !known || !valid || len(was) != len(before.Doc.Entries) || len(now) > ledger.MaxEntries ||
		len(kv.Value) > ledger.MaxDocBytes {
		return ledger.NodeDoc{}, Difference{}, false
	}
	d, err := decodeHeader(kv, newHeader, before, oldHeader)
	if err != nil {
		return ledger.NodeDoc{}, Difference{}, false
	}
	if len(now) > 0 {
		d.Entries = make([]ledger.Entry, len(now))
	}
	like := &noEntry
	if n := len(before.Doc.Entries); n > 0 {
		like = &before.Doc.Entries[n-1]
	}
	var room [mostFields]int
	from := match(was, now, room[:0])
	for i, at := range from {
		if at >= 0 {
			d.Entries[i] = before.Doc.Entries[at]
			continue
		}
		if d.Entries[i], err = decodeEntry(now[i], like); err != nil {
			return ledger.NodeDoc{}, Difference{}, false
		}
	}
	return d, differenceOf(len(was), from), true
}

// decodeEntry decodes one entry. Like is another entry, whose strings it may take over.
func decodeEntry(raw []byte, like *ledger.Entry) (ledger.Entry, error) {
	if e, ok := plainEntry(raw, like); ok {
		return e, nil
	}
	return generatedEntry(raw)
}

// generatedEntry decodes an entry of any form.
func generatedEntry(raw []byte) (ledger.Entry, error) {
	var m ledgerpb.Entry
	// Within a document, an entry is one level deep already.
	options := proto.UnmarshalOptions{RecursionLimit: protowire.DefaultRecursionLimit - 1}
	if err := options.Unmarshal(raw, &m); err != nil {
		return ledger.Entry{}, err
	}
	return entryFromProto(&m)
}

// header is what a stored document has besides its entries.
type header struct {
	// head are the fields before the entries, and tail those behind them.
	head, tail []byte
	// apart means that there are others between entries.
	apart bool
}

// equal reports whether two headers are the same, as far as that shows without decoding them. Without fields there is
// no document.
func (h *header) equal(o *header) bool {
	return len(h.head) > 0 && !h.apart && !o.apart && bytes.Equal(h.head, o.head) && bytes.Equal(h.tail, o.tail)
}

// split finds the parts of a value, and appends the bytes of its entries to entries; false if the value is no message.
// An entry field of another wire type is an unknown field to the generated code, and therefore no entry.
func split(value []byte, entries [][]byte) ([][]byte, header, bool) {
	// The entries begin at first, and end before end.
	first, end := len(value), len(value)
	apart := false
	for at := 0; at < len(value); {
		number, wire, tag := protowire.ConsumeTag(value[at:])
		if tag < 0 {
			return nil, header{}, false
		}
		n := protowire.ConsumeFieldValue(number, wire, value[at+tag:])
		if n < 0 {
			return nil, header{}, false
		}
		next := at + tag + n
		if number == entriesField && wire == protowire.BytesType {
			if len(entries) == 0 {
				first, end = at, at
			}
			apart = apart || end != at
			entry, _ := protowire.ConsumeBytes(value[at+tag : next])
			entries = append(entries, entry)
			end = next
		}
		at = next
	}
	return entries, header{head: value[:first], tail: value[end:], apart: apart}, true
}

// decodeHeader decodes everything of a document but its entries. Where it has the same bytes as that of the earlier
// revision, it is taken over from there.
func decodeHeader(kv ledger.KV, now header, before *ledger.StoredDoc, was header) (ledger.NodeDoc, error) {
	d, plain := before.Doc, now.equal(&was)
	if !plain && !now.apart {
		d, plain = plainHeader(now.head, now.tail, &before.Doc)
	}
	if !plain || !isOf(kv.Key, d.NodeUID) {
		return decodeNodeDoc(ledger.KV{Key: kv.Key, Value: withoutEntries(kv.Value), ModRevision: kv.ModRevision})
	}
	d.Entries, d.Older = nil, nil
	d.Floor = 0
	d.Revision = kv.ModRevision
	return d, nil
}

// isOf reports whether a key is that of a node's document.
func isOf(key, nodeUID string) bool {
	return len(key) == len(ledger.PrefixNode)+len(nodeUID) && strings.HasPrefix(key, ledger.PrefixNode) &&
		strings.HasSuffix(key, nodeUID)
}

// withoutEntries returns the fields of a value other than entries, in their order.
func withoutEntries(value []byte) []byte {
	var rest []byte
	for at := 0; at < len(value); {
		number, wire, tag := protowire.ConsumeTag(value[at:])
		n := protowire.ConsumeFieldValue(number, wire, value[at+tag:])
		if number != entriesField || wire != protowire.BytesType {
			rest = append(rest, value[at:at+tag+n]...)
		}
		at += tag + n
	}
	return rest
}

// match appends to from, for each entry of now, the index of an equal entry of was, -1 if there is none. An entry of
// was is used once. The search begins behind the last match: entries that stay keep their order.
func match(was, now [][]byte, from []int) []int {
	var room [mostFields]bool
	used := room[:]
	if len(was) > len(room) {
		used = make([]bool, len(was))
	}
	next := 0
	for _, entry := range now {
		at := -1
		for i := range was {
			j := (next + i) % len(was)
			if !used[j] && bytes.Equal(was[j], entry) {
				at = j
				break
			}
		}
		if at >= 0 {
			used[at] = true
			next = at + 1
		}
		from = append(from, at)
	}
	return from
}

// differenceOf returns the difference that match has found; before is the number of entries of the earlier revision.
func differenceOf(before int, from []int) Difference {
	kept := 0
	for _, at := range from {
		if at >= 0 {
			kept++
		}
	}
	var d Difference
	if n := len(from) - kept; n > 0 {
		d.Added = make([]int, 0, n)
	}
	if n := before - kept; n > 0 {
		d.Removed = make([]int, 0, n)
	}
	if kept == before && kept == len(from) {
		return d
	}
	var room [mostFields]bool
	used := room[:]
	if before > len(room) {
		used = make([]bool, before)
	}
	for i, at := range from {
		if at < 0 {
			d.Added = append(d.Added, i)
		} else {
			used[at] = true
		}
	}
	for i := range before {
		if !used[i] {
			d.Removed = append(d.Removed, i)
		}
	}
	return d
}
