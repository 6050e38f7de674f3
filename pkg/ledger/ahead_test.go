package ledger

import "testing"

// batch is the next revision of a ledger, with what a transaction puts and deletes in it.
func batch(t *testing.T, revision int64, txn Txn, err error) EventBatch {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	b := EventBatch{Revision: revision}
	for _, p := range txn.Puts {
		b.Events = append(b.Events, Event{KV: KV{Key: p.Key, Value: p.Value, ModRevision: revision}})
	}
	for _, key := range txn.Deletes {
		b.Events = append(b.Events, Event{KV: KV{Key: key, ModRevision: revision}, Deleted: true})
	}
	return b
}

// A node's document is collected, another node of the name gets a pod, and the first is admitted again. Who
// learns of its document from a lost compare knows nothing of that pod, and places nothing until its watch
// has got there.
func TestDocumentLearnedAheadIsNotPlacedIn(t *testing.T) {
	truth, late := NewView(), NewView()
	at := int64(1)
	both := func(txn Txn, err error) EventBatch {
		t.Helper()
		at++
		b := batch(t, at, txn, err)
		if _, err := truth.Apply(b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	first, err := Replace(truth.Open("b", "name", 20))
	if _, err := late.Apply(both(first, err)); err != nil {
		t.Fatal(err)
	}
	var missed []EventBatch
	collected, err := truth.Collection([]string{KeyNode("b")}).Collect()
	missed = append(missed, both(collected, err))
	d, err := Place(truth.Open("a", "name", 10), Entry{
		PodUID: "p", Role: RoleReservation, State: Committed, PodRV: 1, Token: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	placed, err := Replace(d)
	missed = append(missed, both(placed, err))
	change, err := AdmitNode{
		NodeUID: "b", NodeName: "name", NodeRV: 20, Known: truth.Incarnation("name"), Docs: truth.Named("name"),
		Floor: truth.Floor(),
	}.Admit()
	if err != nil {
		t.Fatal(err)
	}
	admitted, err := change.Txn()
	missed = append(missed, both(admitted, err))
	var lost []KV
	for _, ev := range missed[2].Events {
		if ev.Key == KeyNode("b") {
			lost = append(lost, ev.KV)
		}
	}
	if _, err := late.Learn(lost); err != nil {
		t.Fatal(err)
	}
	if now, _ := late.Doc("b"); now.Revision != at {
		t.Fatalf("document at revision %d, want the one that was learned of, %d", now.Revision, at)
	}
	if got := late.Admission("b", "name", 20); got != Superseded {
		t.Errorf("admission %d of a node whose document is known ahead of the watch, want %d", got, Superseded)
	}
	for _, b := range missed {
		if _, err := late.Apply(b); err != nil {
			t.Fatal(err)
		}
	}
	if got := late.Admission("b", "name", 20); got != Admitted {
		t.Errorf("admission %d once the watch has got there, want %d", got, Admitted)
	}
	if now, _ := late.Doc("b"); len(now.Older) != 1 {
		t.Errorf("%d older documents, want the one with the pod", len(now.Older))
	}
}
