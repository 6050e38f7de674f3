package invariant

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// Violation is one broken invariant, named as in the protocol: S3 (one live reservation per pod), S4 (nothing
// leaves without a fact or a fence), S5 (no placement relies on a victim), S12 (documents and high-waters never go
// back), S16 (one document at a time allocates the room of a node's name), or "form" for a value that no builder
// makes.
type Violation struct {
	Invariant       string
	NodeUID, PodUID string
	Detail          string
}

func (v Violation) Error() string {
	if v.PodUID == "" {
		return fmt.Sprintf("ledger: %s: node %s: %s", v.Invariant, v.NodeUID, v.Detail)
	}
	return fmt.Sprintf("ledger: %s: node %s: pod %s: %s", v.Invariant, v.NodeUID, v.PodUID, v.Detail)
}

// form is the invariant of values that are malformed by themselves.
const form = "form"

// CheckDoc checks one document by itself: its form, and S3 within it.
func CheckDoc(d ledger.NodeDoc) []Violation {
	var out []Violation
	if d.NodeUID == "" {
		out = append(out, Violation{Invariant: form, Detail: "document without node UID"})
	}
	if len(d.Entries) > ledger.MaxEntries {
		out = append(out, Violation{Invariant: form, NodeUID: d.NodeUID,
			Detail: fmt.Sprintf("%d entries, want at most %d", len(d.Entries), ledger.MaxEntries)})
	}
	for _, e := range d.Entries {
		out = append(out, CheckEntry(d, e)...)
	}
	out = append(out, checkVictims(d)...)
	one := func(yield func(ledger.NodeDoc) bool) { yield(d) }
	return append(out, CheckUnique(one)...)
}

// CheckEntry checks the form of one entry of a document.
func CheckEntry(d ledger.NodeDoc, e ledger.Entry) []Violation {
	var out []Violation
	bad := func(detail string, args ...any) {
		out = append(out, Violation{
			Invariant: form, NodeUID: d.NodeUID, PodUID: e.PodUID, Detail: fmt.Sprintf(detail, args...),
		})
	}
	if e.PodUID == "" {
		bad("entry of %s/%s without pod UID", e.Namespace, e.Name)
	}
	if e.Role < ledger.RoleReservation || e.Role > ledger.RoleMove {
		bad("unknown role %d", e.Role)
	}
	for _, name := range negative(e.Requests) {
		bad("request of %d %s is negative", e.Requests[name], name)
	}
	if (len(e.Dependents) > 0) != (e.Role == ledger.RoleKeeper) {
		bad("%s with %d dependents: keepers have some, others none", e.Role, len(e.Dependents))
	}
	if len(e.Budgets) > 0 && e.Role != ledger.RoleVictim {
		bad("%s with disruption budgets: only victims have some", e.Role)
	}
	if (e.Replacement != ledger.Replacement{}) != (e.Role == ledger.RoleMove) {
		bad("%s with replacement %+v: placeholders have one, others none", e.Role, e.Replacement)
	}
	if e.Role == ledger.RoleVictim && e.State != 0 && e.State != ledger.Evicting {
		bad("victim in state %s, want None or Evicting", e.State)
	}
	if e.Role != ledger.RoleReservation {
		return out
	}
	if e.State < ledger.Held || e.State > ledger.Fencing {
		bad("reservation in unknown state %d", e.State)
	}
	if e.PodRV == 0 {
		bad("reservation without the pod's resourceVersion")
	}
	if e.Token == 0 {
		bad("reservation without token")
	}
	return out
}

// negative returns the resources that are requested less than not at all, sorted; nothing is sorted where there are
// none, as each entry that a shard places is checked.
func negative(requests map[string]int64) (names []string) {
	for name, amount := range requests {
		if amount < 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CheckUnique checks S3 over any number of documents: a pod has at most one reservation that is Committed or
// Fencing, whichever shards have owned its partition over time.
func CheckUnique(docs iter.Seq[ledger.NodeDoc]) []Violation {
	var out []Violation
	at := map[string]string{}
	for d := range docs {
		for _, e := range d.Entries {
			if e.Role != ledger.RoleReservation || (e.State != ledger.Committed && e.State != ledger.Fencing) {
				continue
			}
			if other, ok := at[e.PodUID]; ok {
				out = append(out, Violation{Invariant: "S3", NodeUID: d.NodeUID, PodUID: e.PodUID,
					Detail: fmt.Sprintf("is reserved on node %s too", other)})
			}
			at[e.PodUID] = d.NodeUID
		}
	}
	return out
}

// CheckSuccessor checks that after may follow before as the next revision of one node's document: high-waters do
// not sink (S12), every step of a reservation is legal, only state and wanted of a remaining entry change, and an
// entry that leaves was either Held or left a high-water behind that covers it (S4). A zero before stands for "did
// not exist".
func CheckSuccessor(before, after ledger.NodeDoc) []Violation {
	var out []Violation
	bad := func(invariant, pod, detail string, args ...any) {
		out = append(out, Violation{
			Invariant: invariant, NodeUID: after.NodeUID, PodUID: pod, Detail: fmt.Sprintf(detail, args...),
		})
	}
	if before.NodeUID != "" && before.NodeUID != after.NodeUID {
		bad("S12", "", "follows the document of node %s", before.NodeUID)
	}
	if after.Revision != 0 && after.Revision <= before.Revision {
		bad("S12", "", "revision %d follows %d", after.Revision, before.Revision)
	}
	for _, kind := range slices.Sorted(maps.Keys(before.HW)) {
		if after.HW[kind] < before.HW[kind] {
			bad("S12", "", "high-water of %s sank from %d to %d", kind, before.HW[kind], after.HW[kind])
		}
	}
	out = append(out, checkVictimStep(before, after)...)
	out = append(out, CheckDisplaced(before, after)...)
	for old := range before.Reservations() {
		now, ok := after.Find(old.PodUID)
		if ok && now.Token == old.Token {
			out = append(out, checkStep(after.NodeUID, old, now)...)
			if old.State == ledger.Held && now.State == ledger.Committed && before.SupersededBy != "" {
				bad("S16", now.PodUID, "was promoted although the node's name stands for node %s", before.SupersededBy)
			}
			continue
		}
		if old.State != ledger.Held && after.HW[ledger.KindPod] < old.PodRV {
			bad("S4", old.PodUID, "left from %s, and high-water %d does not cover its resourceVersion %d",
				old.State, after.HW[ledger.KindPod], old.PodRV)
		}
	}
	for now := range after.Reservations() {
		if old, ok := before.Find(now.PodUID); ok && old.Token == now.Token {
			continue
		}
		if before.SupersededBy != "" && after.SupersededBy != "" {
			bad("S16", now.PodUID, "was reserved although the node's name stands for node %s", before.SupersededBy)
		}
		if !ledger.State(0).MayBecome(now.State) {
			bad("S4", now.PodUID, "appeared as %s", now.State)
		}
	}
	return out
}

// checkStep checks one reservation that stays under its token. It copies to old what the step may change, and compares
// the rest as encoded, so that a field that is added later is compared without a change here.
func checkStep(nodeUID string, old, now ledger.Entry) []Violation {
	var out []Violation
	if old.State != now.State && !old.State.MayBecome(now.State) {
		out = append(out, Violation{Invariant: "S4", NodeUID: nodeUID, PodUID: now.PodUID,
			Detail: fmt.Sprintf("went from %s to %s", old.State, now.State)})
	}
	if old.State == ledger.Held && now.State == ledger.Committed {
		// A promotion uses the pod as it is at that time, what its claims get at that time and who binds it, and
		// ends its plan.
		old.PodRV = max(old.PodRV, now.PodRV)
		old.PlacementHash = now.PlacementHash
		old.Plan = now.Plan
		old.Volumes = now.Volumes
		old.Devices = now.Devices
		old.Delegated = now.Delegated
	}
	if now.State == ledger.Committed {
		old.Devices = named(old.Devices, now.Devices)
	}
	if old.Later == "" {
		old.Later = now.Later // a later version may add to it
	}
	if old.State == ledger.Committed && now.State == ledger.Fencing {
		old.Cause = now.Cause
	}
	old.State, old.Wanted = now.State, now.Wanted
	if !proto.Equal(codec.EntryToProto(&old), codec.EntryToProto(&now)) {
		out = append(out, Violation{Invariant: "S4", NodeUID: nodeUID, PodUID: now.PodUID,
			Detail: fmt.Sprintf("was rewritten under token %s", now.Token)})
	}
	return out
}

// named returns the old picks, with the UIDs of claims that have been created since, and no other difference in
// now.
func named(old, now []ledger.DevicePick) []ledger.DevicePick {
	if len(old) != len(now) {
		return old
	}
	list := append([]ledger.DevicePick(nil), old...)
	for i := range list {
		if list[i].Unmade() {
			list[i].ClaimUID, list[i].ClaimRV = now[i].ClaimUID, now[i].ClaimRV
		}
	}
	return list
}
