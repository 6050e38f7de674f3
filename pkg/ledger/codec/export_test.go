package codec

import "github.com/berth-scheduler/berth/pkg/ledger"

// PlainEntry decodes an entry of the plain form; false for any other.
func PlainEntry(raw []byte) (ledger.Entry, bool) { return plainEntry(raw, &noEntry) }

// GeneratedEntry decodes an entry with the generated code alone.
func GeneratedEntry(raw []byte) (ledger.Entry, error) { return generatedEntry(raw) }
