package state

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// Wish is a hash of what of the pod a decision may have looked at: two versions of a pod with
// the same wish ask for the same place. metadata.generation stands for the spec; labels move
// without it. Status, annotations and owners do not count. It is never 0, the same in every
// process and release (it is written to the ledger), and of a kind that nobody can aim at: who
// may change a pod must not be able to hide that.
func (p *Pod) Wish() uint64 {
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

// appendText appends a text so that no two sequences of texts come out alike.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
