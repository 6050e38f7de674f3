package ledger

import (
	"fmt"
	"slices"
)

// Validate says whether a store could carry t out: *TxnError names what is wrong. Both
// stores ask it first, so a malformed transaction is refused the same way by each and
// never becomes an unknown outcome.
func (t Txn) Validate() error {
	if n := max(len(t.Compares), len(t.Puts)+len(t.Deletes)); n > MaxTxnOps {
		return &TxnError{TooLarge: true, Reason: fmt.Sprintf("%d compares and %d writes, at most %d of each are accepted",
			len(t.Compares), len(t.Puts)+len(t.Deletes), MaxTxnOps)}
	}
	if n := t.Bytes(); n > MaxTxnBytes {
		return &TxnError{TooLarge: true, Reason: fmt.Sprintf("%d bytes, at most %d are accepted", n, MaxTxnBytes)}
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

// Compared are the keys t compares, each once, in order of first appearance: what a store
// reads back when t fails.
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

// Committed are the keys a succeeded t has put, as stored: what View.Learn takes. A key's
// create revision is 0 where t does not tell it (it compared a mod revision above 0).
func (t Txn) Committed(r TxnResult) []KV {
	if !r.Succeeded {
		return nil
	}
	kvs := make([]KV, 0, len(t.Puts))
	for _, p := range t.Puts {
		kv := KV{Key: p.Key, Value: p.Value, ModRevision: r.Revision, Lease: p.Lease}
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

// Merge makes one transaction of several that write different keys: all or nothing.
// *TxnError when together they are malformed or over the bounds.
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

// Replace makes the transaction of T5, T6, T7 and MarkWanted: each document takes the
// place of what was read at its Revision, or none does.
//
// Compares: n/<uid>.ModRevision of each; of those that do not exist incarnation/<name> and floor,
// too. Puts: each document, and the incarnations of those that did not exist. A crash before it
// leaves everything as it was, after it the new documents. If it fails, Refreshed returns the
// documents that lost.
func Replace(docs ...NodeDoc) (Txn, error) {
	var t Txn
	if err := t.replaceDocs(docs, nil); err != nil {
		return Txn{}, err
	}
	return t, t.Validate()
}

// replaceDocs puts documents. A first one makes its node the incarnation of its name, unless the
// transaction admits it already.
func (t *Txn) replaceDocs(docs []NodeDoc, admitted []Incarnation) error {
	for _, d := range docs {
		value, err := EncodeNodeDoc(d)
		if err != nil {
			return err
		}
		key := KeyNode(d.NodeUID)
		t.Compares = append(t.Compares, Compare{Key: key, Target: ModRevision, Revision: d.Revision})
		t.Puts = append(t.Puts, Put{Key: key, Value: value})
		admits := slices.ContainsFunc(admitted, func(i Incarnation) bool { return i.NodeUID == d.NodeUID })
		if d.Revision != 0 && !admits {
			continue
		}
		if err := t.absent(0, d.Floor); err != nil {
			return err
		}
		if admits {
			continue
		}
		first := Incarnation{NodeName: d.NodeName, NodeUID: d.NodeUID, NodeRV: d.HW[KindNode]}
		if err := replaceAll(t, []Incarnation{first}, EncodeIncarnation); err != nil {
			return err
		}
	}
	return nil
}

// Refreshed returns, of a transaction that failed, the documents whose key is no longer at
// the Revision they were read at, as they are now: a document that does not exist (any
// more) comes back without entries at Revision 0.
func Refreshed(docs []NodeDoc, r TxnResult) ([]NodeDoc, error) {
	if r.Succeeded {
		return nil, nil
	}
	return refreshed(docs, DecodeNodeDoc, r)
}

// current is the compared key as it is now; its revisions are 0 if it does not exist.
func (r TxnResult) current(key string) KV {
	i := slices.IndexFunc(r.Current, func(kv KV) bool { return kv.Key == key })
	if i < 0 {
		return KV{Key: key}
	}
	return r.Current[i]
}
