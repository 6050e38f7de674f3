// Package generation makes sure that the ledger's generation is one that members can rely upon.
package generation
