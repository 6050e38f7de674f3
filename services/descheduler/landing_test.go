package descheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
)

// leaseEnding ends the session with the lease after a number of transactions, and answers the last of them once the
// member that sent it knows that.
type leaseEnding struct {
	*mem.Store
	after int
	lease int64
}

func (d *leaseEnding) Commit(ctx context.Context, t ledger.Txn) (ledger.TxnResult, error) {
	r, err := d.Store.Commit(ctx, t)
	if d.after--; d.after == 0 {
		d.Expire(d.lease)
		<-ctx.Done()
	}
	return r, err
}

// promises returns the ledger's places and victims, by name of the pod to evict, sorted.
func (w *world) promises() (out []string) {
	w.t.Helper()
	kvs, _, err := w.ledger.List(w.t.Context(), ledger.PrefixNode)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, kv := range kvs {
		d, err := codec.DecodeNodeDoc(kv)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range d.Entries {
			out = append(out, fmt.Sprintf("%s of %s on %s", e.Role, e.Name, d.NodeName))
		}
	}
	slices.Sort(out)
	return out
}

// A place is kept before the eviction is requested, and the request says so.
func TestPlaceIsKeptBeforeTheAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		r := w.start("d1")
		defer r.stop()
		w.wantAsks("plain#1 by d1")
		want := []string{"Move of plain on b", "Victim of plain on a"}
		if got := w.promises(); !slices.Equal(got, want) {
			t.Fatalf("the ledger has %q, want %q", got, want)
		}
		d := w.decisions()[0]
		if d.LedgerRevision == 0 || d.Landing != "b" {
			t.Errorf("the ask is about revision %d and node %q", d.LedgerRevision, d.Landing)
		}
		w.answer(events.DecisionEvictRefused)
		after(time.Minute)
		if got := w.promises(); len(got) > 0 {
			t.Errorf("the ledger still has %q after the refusal", got)
		}
	})
}

// A leader that loses its lease in the middle of a cycle does nothing more; the next one gives up the place without a
// request, and every eviction is requested once.
func TestLostLeaseStopsTheCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("a", gpuOnly)
		w.node("b")
		for i := range 4 {
			w.pod(fmt.Sprint("p", i), "a")
		}
		w.publish()
		w.ledgers = map[string]Ledger{"d1": &leaseEnding{Store: w.ledger, after: 2, lease: 1}}
		first := w.start("d1")
		defer first.stop()
		w.wantAsks()
		if kept := len(w.promises()); kept != 4 || first.Leading() {
			t.Fatalf("the ledger has %q, leading %t: want two places, their victims, and no leader",
				w.promises(), first.Leading())
		}
		second := w.start("d2")
		after(2 * time.Minute)
		second.stop()
		asks := w.asks()
		slices.Sort(asks)
		if want := []string{"p0#1 by d2", "p1#1 by d2", "p2#1 by d2", "p3#1 by d2"}; !slices.Equal(asks, want) {
			t.Errorf("asks %q, want %q", asks, want)
		}
		if kept := len(w.promises()); kept != 8 {
			t.Errorf("the ledger has %q, want four places and their victims", w.promises())
		}
		if !strings.Contains(w.output.String(), "released places without an eviction request") {
			t.Errorf("nothing is said of the places that were given up:\n%s", w.output.String())
		}
	})
}

// A pod that is where the pod before it was moved away from is reported once, whichever replica leads.
func TestReturnIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.twoNodes()
		w.taintA()
		first := w.start("d1")
		w.answer(events.DecisionEvicted)
		w.facts.Delete(events.KindPod, "uid-plain")
		w.pod("again", "a", func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{Time: time.Now()} })
		w.publish()
		after(2 * time.Minute)
		first.stop()
		second := w.start("d2")
		defer second.stop()
		after(2 * time.Minute)
		var returned []string
		for _, d := range w.decisions() {
			if d.Kind == events.DecisionReturned {
				returned = append(returned, fmt.Sprintf("%s on %s by %s", d.Pod.Name, d.NodeName, d.Actor))
			}
		}
		if want := []string{"again on a by d1"}; !slices.Equal(returned, want) {
			t.Errorf("told %q, want %q", returned, want)
		}
		w.wantAsks("plain#1 by d1")
	})
}
