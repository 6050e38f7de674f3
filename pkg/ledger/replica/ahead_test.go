package replica_test

import (
	"context"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// lag is a ledger with one member that has read all of it and one whose watch is behind.
type lag struct {
	t           *testing.T
	store       *mem.Store
	truth, late *replica.View
	// missed are the revisions that the late member's view has not applied.
	missed []ledger.EventBatch
}

func newLag(t *testing.T) *lag {
	return &lag{t: t, store: mem.New(), truth: replica.NewView(), late: replica.NewView()}
}

func (l *lag) commit(txn ledger.Txn, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	res, err := l.store.Commit(context.Background(), txn)
	if err != nil || !res.Succeeded {
		l.t.Fatalf("the transaction came to %+v, %v", res, err)
	}
	b := ledger.EventBatch{Revision: res.Revision}
	for _, kv := range txn.Committed(res) {
		b.Events = append(b.Events, ledger.Event{KV: kv})
	}
	for _, key := range txn.Deletes {
		b.Events = append(b.Events, ledger.Event{KV: ledger.KV{Key: key, ModRevision: res.Revision}, Deleted: true})
	}
	if _, err := l.truth.Apply(b); err != nil {
		l.t.Fatal(err)
	}
	l.missed = append(l.missed, b)
}

// place commits a reservation of a pod on a node.
func (l *lag) place(pod, nodeUID string, nodeRV uint64) {
	l.t.Helper()
	d, err := txns.Place(l.truth.Open(nodeUID, "name", nodeRV), ledger.Entry{
		PodUID: pod, Role: ledger.RoleReservation, State: ledger.Committed, PodRV: 1, Token: 1,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.commit(txns.Replace(d))
}

// catchUp makes the late member's watch deliver everything.
func (l *lag) catchUp() {
	l.t.Helper()
	for _, b := range l.missed {
		if _, err := l.late.Apply(b); err != nil {
			l.t.Fatal(err)
		}
	}
	l.missed = nil
}

// lose makes the late member lose a compare on its version of a node's document.
func (l *lag) lose(nodeUID string) {
	l.t.Helper()
	d, _ := l.late.Doc(nodeUID)
	txn, err := txns.Replace(d)
	if err != nil {
		l.t.Fatal(err)
	}
	res, err := l.store.Commit(context.Background(), txn)
	if err != nil || res.Succeeded || len(res.Current) == 0 {
		l.t.Fatalf("the transaction on an old document came to %+v, %v", res, err)
	}
	if _, err := l.late.Learn(res.Current); err != nil {
		l.t.Fatal(err)
	}
	want, _ := l.truth.Doc(nodeUID)
	if now, _ := l.late.Doc(nodeUID); now.Revision != want.Revision {
		l.t.Fatalf("document at revision %d, want the one that was learned of, %d", now.Revision, want.Revision)
	}
}

// A node's document is collected, another node of the name gets a pod, and the first node is admitted again. A
// member that learns of its document from a lost compare does not know that pod, and places nothing until its watch
// has caught up.
func TestDocumentLearnedAheadIsNotPlacedIn(t *testing.T) {
	l := newLag(t)
	l.commit(txns.Replace(l.truth.Open("b", "name", 20)))
	l.catchUp()
	l.commit(txns.CollectionOf(l.truth, []string{ledger.KeyNode("b")}).Collect())
	l.place("p", "a", 10)
	change, err := txns.AdmitNode{
		NodeUID: "b", NodeName: "name", NodeRV: 20, Known: l.truth.Names().Incarnation("name"),
		Docs:  l.truth.Names().Docs("name"),
		Floor: l.truth.Floor(),
	}.Admit()
	if err != nil {
		t.Fatal(err)
	}
	l.commit(change.Txn())

	l.lose("b")
	if got := l.late.Names().Admission("b", "name", 20); got != replica.Superseded || !l.late.Names().AheadOfWatch() {
		t.Errorf("admission %d (ahead %t) of a node whose document was learned ahead of the watch, want %d",
			got, l.late.Names().AheadOfWatch(), replica.Superseded)
	}
	l.catchUp()
	if got := l.late.Names().Admission("b", "name", 20); got != replica.Admitted || l.late.Names().AheadOfWatch() {
		t.Errorf("admission %d (ahead %t) once the watch has got there, want %d", got, l.late.Names().AheadOfWatch(),
			replica.Admitted)
	}
	if now, _ := l.late.Doc("b"); now.Older == nil || len(now.Older.Entries) != 1 || now.Older.Older != nil {
		t.Errorf("older document %v, want the one with the pod", now.Older)
	}
}

// A document that has existed since the member read it is used at once: a member that loses a compare on the best
// node need not choose a worse one.
func TestDocumentThatStoodIsPlacedIn(t *testing.T) {
	l := newLag(t)
	l.place("p", "a", 10)
	l.catchUp()
	l.place("q", "a", 10)
	l.lose("a")
	if got := l.late.Names().Admission("a", "name", 10); got != replica.Admitted || l.late.Names().AheadOfWatch() {
		t.Errorf("admission %d (ahead %t) of a node whose document was replaced, want %d",
			got, l.late.Names().AheadOfWatch(), replica.Admitted)
	}
}
