package ledger

import (
	"maps"
	"slices"
	"strings"
)

// Weight is the document's share of MaxTxnBytes when it is compared and put.
func (b BudgetDoc) Weight() int {
	return KeyWeight(len(PrefixBudget)+len(b.UID)) + b.Bytes() + KeyWeight(len(KeyFloor))
}

// Bytes returns the length of what EncodeBudget writes.
func (b BudgetDoc) Bytes() int {
	n := numberBytes(1, SchemaVersion) + textBytes(2, len(b.UID)) + textBytes(3, len(b.Namespace)) +
		textBytes(4, len(b.Name)) + highWatersBytes(b.HW) + len(b.Later)
	for i := range b.Claims {
		c := &b.Claims[i]
		n += partBytes(6, podBytes(1, 2, c.PodUID)+numberBytes(3, c.PodRV)+textBytes(4, len(c.Plan))+
			boolBytes(5, c.Regardless)+len(c.Later))
	}
	return n
}

// CheckRoom refuses a document to which something was added, unless its high-waters may still grow.
func (b BudgetDoc) CheckRoom() error {
	bytes, growth := b.Bytes(), growthOf(b.HW)
	if tooLarge(len(b.Claims), bytes+growth) {
		return &DocTooLargeError{Key: b.DocKey(), Entries: len(b.Claims), Bytes: bytes, Growth: growth}
	}
	return nil
}

// BudgetDoc holds the claims on one PodDisruptionBudget that do not show in its status yet: b/<pdb uid>, at one
// revision.
type BudgetDoc struct {
	UID, Namespace, Name string
	// HW is the high-water per kind. A member whose progress of disruption budgets is below HW[KindBudget], or of
	// pods below HW[KindPod], must not claim.
	HW     map[string]uint64
	Claims []BudgetClaim
	// Revision is the mod revision the document was read at; 0 when it does not exist. In that case Floor is the
	// revision of the Floor under which its absence was read.
	Revision, Floor int64
	Later           string
}

// BudgetClaim is a claim to one disruption of a budget.
type BudgetClaim struct {
	// PodUID is the victim, PodRV its resourceVersion when it was claimed.
	PodUID string
	PodRV  uint64
	// Plan is the plan that made the claim.
	Plan string
	// Regardless means that the claim was made whether the budget had room or not (BudgetRoom.Exceed,
	// NodeEntry.Request). It counts like any other claim; it shows an audit that exceeding the budget was requested.
	Regardless bool
	Later      string
}

// KeyBudget is the key of a disruption budget's document.
func KeyBudget(pdbUID string) string { return PrefixBudget + pdbUID }

// SharedBudgetPrefix is the prefix of the UIDs of documents that the budgets of a namespace share. No object has such
// a UID.
const SharedBudgetPrefix = "ns/"

// ParseShared returns the namespace of a key b/ns/<namespace>: see BudgetRoom.Shared.
func ParseShared(key string) (namespace string, ok bool) {
	return strings.CutPrefix(key, PrefixBudget+SharedBudgetPrefix)
}

// DocKey returns the key of the document.
func (b BudgetDoc) DocKey() string { return KeyBudget(b.UID) }

// ReadAt returns the revision that the document was read at, 0 if it does not exist.
func (b BudgetDoc) ReadAt() int64 { return b.Revision }

// ReadUnder returns the revision of the Floor under which the absence of the document was read.
func (b BudgetDoc) ReadUnder() int64 { return b.Floor }

// Blank returns the document in the form that stands for one that does not exist.
func (b BudgetDoc) Blank() BudgetDoc {
	return BudgetDoc{UID: b.UID, Namespace: b.Namespace, Name: b.Name}
}

// Clone returns a document whose lists and high-waters may be changed.
func (b BudgetDoc) Clone() BudgetDoc {
	b.Claims = slices.Clone(b.Claims)
	b.HW = maps.Clone(b.HW)
	return b
}

// Claimed reports whether a victim is claimed from the budget.
func (b BudgetDoc) Claimed(podUID string) bool { return b.ClaimIndex(podUID) >= 0 }

// ClaimIndex returns the index of the claim on a victim, -1 if there is none.
func (b BudgetDoc) ClaimIndex(podUID string) int {
	return slices.IndexFunc(b.Claims, func(c BudgetClaim) bool { return c.PodUID == podUID })
}
