package codec

import (
	"bytes"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// Built returns the document of a key that this process has put itself, as it was built (ledger.KV.Doc). It is equal to
// what DecodeNodeDoc returns. It is false if the key has no such document, if that does not belong to the value, or if
// decoding could give another result: then the caller decodes the value.
//
// Its entries are shared with the document that was built. Documents are never changed in place.
func Built(kv ledger.KV) (ledger.NodeDoc, bool) {
	if kv.Doc == nil || !bytes.Equal(kv.Doc.Value, kv.Value) {
		return ledger.NodeDoc{}, false
	}
	d := kv.Doc.Doc
	if uid, is := strings.CutPrefix(kv.Key, ledger.PrefixNode); !is || uid != d.NodeUID {
		return ledger.NodeDoc{}, false
	}
	for i := range d.Entries {
		if !decodesToItself(&d.Entries[i]) {
			return ledger.NodeDoc{}, false
		}
	}
	// A document that was read has nil for what is empty, and no room behind its entries. What the view has added to it
	// is not stored.
	if d.Entries = slices.Clip(d.Entries); len(d.Entries) == 0 {
		d.Entries = nil
	}
	if len(d.HW) == 0 {
		d.HW = nil
	}
	d.Older, d.Floor = nil, 0
	d.Revision = kv.ModRevision
	return d, true
}

// decodesToItself reports whether an entry that was encoded is decoded to the same entry. It is not so for values that
// the decoder refuses, and for lists and maps that are empty and not nil. Entries with volumes or devices are few, and
// have more such lists: for them the answer is no.
func decodesToItself(e *ledger.Entry) bool {
	valid := e.PodUID != "" && e.Role >= ledger.RoleReservation && e.Role <= ledger.Role(ledgerpb.Role_ROLE_MOVE) &&
		e.State <= ledger.State(ledgerpb.State_STATE_EVICTING) &&
		e.GroupPartition >= 0 && e.GroupPartition <= ledger.Partitions &&
		e.NotAfter == timeOf(e.NotAfterMillis()) //nolint:staticcheck // the same value: also its location
	return valid && e.Volumes == nil && e.Devices == nil && (e.Requests == nil || len(e.Requests) > 0) &&
		(e.Ports == nil || len(e.Ports) > 0) && (e.Budgets == nil || len(e.Budgets) > 0) && dependentsDecode(e.Dependents)
}

// dependentsDecode is decodesToItself for the pods that rely on a keeper.
func dependentsDecode(list []ledger.Dependent) bool {
	for i := range list {
		if list[i].PodUID == "" {
			return false
		}
	}
	return list == nil || len(list) > 0
}
