package state

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// PlacementHash returns a hash of what a decision may have examined of the pod: two versions of a pod with the same
// hash need the same placement. metadata.generation stands for the spec; labels change without it. Status, annotations
// and owners do not count. It is never 0, and the same in every process and release (it is written to the ledger).
// It uses a cryptographic hash: a user who may change a pod must not be able to hide the change.
func (p *Pod) PlacementHash() uint64 {
	asked := binary.AppendVarint(nil, p.Generation())
	if p.Template != nil {
		labels := p.Template.Labels
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			asked = appendText(appendText(asked, name), labels[name])
		}
	}
	sum := sha256.Sum256(asked)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// appendText appends a text so that no two sequences of texts have the same encoding.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
