package replica

import "github.com/berth-scheduler/berth/pkg/ledger"

// The rule of all parts: of two values of one key, the one with the higher mod revision wins, whether the watch, the
// member's own transaction or a lost compare has shown it. Applying a value twice, or in another order, therefore
// changes nothing.

// putNewer stores a document, unless that revision of it or a newer one is known. It appends the name to changed if
// it has stored the document.
func putNewer[T ledger.Document[T]](
	into map[string]T, kv ledger.KV, decode func(ledger.KV) (T, error), name string, changed *[]string,
) error {
	if old, known := into[name]; known && kv.ModRevision <= old.ReadAt() {
		return nil
	}
	d, err := decode(kv)
	if err != nil {
		return err
	}
	into[name] = d
	*changed = append(*changed, name)
	return nil
}

// dropOlder removes a document that was deleted at revision, unless a newer one is known.
func dropOlder[T ledger.Document[T]](from map[string]T, name string, revision int64, changed *[]string) {
	if old, known := from[name]; known && old.ReadAt() < revision {
		delete(from, name)
		*changed = append(*changed, name)
	}
}

// keepLater copies the values that are later than a list, which was read at revision.
func keepLater[K comparable, T any](into, from map[K]T, revision int64, of func(T) int64) {
	for key, value := range from {
		if of(value) > revision {
			into[key] = value
		}
	}
}

// keepAhead copies the revisions that are later than a list, which was read at revision.
func keepAhead(into, from map[string]int64, revision int64) {
	keepLater(into, from, revision, func(ahead int64) int64 { return ahead })
}
