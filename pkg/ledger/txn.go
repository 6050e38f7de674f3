package ledger

import (
	"fmt"
	"slices"
)

// Validate returns a *TxnError that names what is wrong if a store could not carry out t. Both stores call it
// first, so each refuses a malformed transaction in the same way, and it never becomes an unknown outcome.
func (t Txn) Validate() error {
	if n := max(len(t.Compares), len(t.Puts)+len(t.Deletes)); n > MaxTxnOps {
		return &TxnError{TooLarge: true, Reason: fmt.Sprintf("%d compares and %d writes, want at most %d of each",
			len(t.Compares), len(t.Puts)+len(t.Deletes), MaxTxnOps)}
	}
	if n := t.Bytes(); n > MaxTxnBytes {
		return &TxnError{TooLarge: true, Reason: fmt.Sprintf("%d bytes, want at most %d", n, MaxTxnBytes)}
	}
	for _, c := range t.Compares {
		if c.Key == "" {
			return &TxnError{Reason: "compare of an empty key"}
		}
		if c.Target != ModRevision && c.Target != CreateRevision {
			return &TxnError{Reason: fmt.Sprintf("compare of %s: unknown target %d", c.Key, c.Target)}
		}
		if c.Revision < 0 {
			return &TxnError{Reason: fmt.Sprintf("compare of %s: revision %d is negative", c.Key, c.Revision)}
		}
	}
	written := make(map[string]struct{}, len(t.Puts)+len(t.Deletes))
	for _, key := range t.writes() {
		if key == "" {
			return &TxnError{Reason: "write of an empty key"}
		}
		if _, twice := written[key]; twice {
			return &TxnError{Reason: fmt.Sprintf("key %s is written twice", key)}
		}
		written[key] = struct{}{}
	}
	return nil
}

func (t Txn) writes() []string {
	keys := make([]string, 0, len(t.Puts)+len(t.Deletes))
	for _, p := range t.Puts {
		keys = append(keys, p.Key)
	}
	return append(keys, t.Deletes...)
}

// Compared returns the keys that t compares, each once, in order of first appearance. A store reads them
// when t has failed.
func (t Txn) Compared() []string {
	keys := make([]string, 0, len(t.Compares))
	seen := make(map[string]struct{}, len(t.Compares))
	for _, c := range t.Compares {
		if _, ok := seen[c.Key]; !ok {
			seen[c.Key] = struct{}{}
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// Committed returns the keys that a succeeded t has put, as stored, for View.Learn. A key's create revision is 0
// where t does not show it (because it compared a mod revision above 0).
func (t Txn) Committed(r TxnResult) []KV {
	if !r.Succeeded {
		return nil
	}
	kvs := make([]KV, 0, len(t.Puts))
	for _, p := range t.Puts {
		kv := KV{Key: p.Key, Value: p.Value, ModRevision: r.Revision, Lease: p.Lease, Doc: p.Doc}
		for _, c := range t.Compares {
			switch {
			case c.Key != p.Key:
			case c.Revision == 0:
				kv.CreateRevision = r.Revision
			case c.Target == CreateRevision:
				kv.CreateRevision = c.Revision
			}
		}
		kvs = append(kvs, kv)
	}
	return kvs
}

// Merge combines several transactions that write different keys into one: all or nothing. It returns a *TxnError
// when together they are malformed or exceed the bounds.
func Merge(txns ...Txn) (Txn, error) {
	var all Txn
	for _, t := range txns {
		all.Compares = append(all.Compares, t.Compares...)
		all.Puts = append(all.Puts, t.Puts...)
		all.Deletes = append(all.Deletes, t.Deletes...)
	}
	if err := all.Validate(); err != nil {
		return Txn{}, err
	}
	return all, nil
}

// ValueOf returns the compared key as it is now; its revisions are 0 if it does not exist.
func (r TxnResult) ValueOf(key string) KV {
	i := slices.IndexFunc(r.Current, func(kv KV) bool { return kv.Key == key })
	if i < 0 {
		return KV{Key: key}
	}
	return r.Current[i]
}
