package ledger

// Floor stands in for the documents that were collected. A document that does not exist has these high-waters. A
// document may have come and gone since a member last looked, so every transaction that relies on a document's
// absence compares the floor's revision (NodeDoc.Floor, BudgetDoc.Floor, ExclusiveDoc.Floor).
type Floor struct {
	HW map[string]uint64
	// Revision is the mod revision it was read at; 0 while nothing was ever collected.
	Revision int64
	Later    string
}

// Of returns the high-waters of some kinds that a new document starts from; nil if there are none.
func (f Floor) Of(kinds ...string) (hw map[string]uint64) {
	for _, kind := range kinds {
		hw = Raised(hw, kind, f.HW[kind])
	}
	return hw
}
