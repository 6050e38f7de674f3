// Package gates removes the scheduling gate of the namespace quota from pods when the queue orders it.
//
// Start reading at Remover, then gateRemoval.
package gates
