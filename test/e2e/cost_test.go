//go:build e2e

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

var (
	loadFor   = flag.Duration("load-for", 20*time.Second, "how long TestLedgerDoesNotGrow keeps pods coming and going")
	loadEvery = flag.Duration("load-every", 0, "time from one wave of its pods to the next; 0: when the last is bound")
)

const (
	// alone is how many pods are placed one by one, coming how many as they are created, and together how many at once.
	alone, coming, together = 40, 1000, 2000
	// A pod alone costs its reservation and the removal of that, in company much less.
	writesAlone, txnsTogether = 2.0, 0.5
	// wave is how many pods come and go at once under lasting load.
	wave = 300
	// perPodInFlight bounds the size of one pod in flight in the ledger, in bytes: an entry of about 130 bytes (see
	// pkg/ledger), twice for a margin.
	perPodInFlight = 300
)

// waitHandedOver waits until no reservation is left: every pod is bound, and the keepers of the documents have seen it.
func (f *fleet) waitHandedOver() harness.LedgerSize {
	f.Helper()
	var size harness.LedgerSize
	f.eventually(placedWithin, "the ledger holds no reservations", func(ctx context.Context) (_ string, err error) {
		if size, err = f.etcd.Size(ctx); err != nil || size.Entries == 0 {
			return "", err
		}
		return fmt.Sprintf("%d entries", size.Entries), nil
	})
	return size
}

// spent counts the transactions about placements after a revision, and their writes.
func (f *fleet) spent(after int64) (txns, writes int) {
	f.Helper()
	history, err := f.etcd.Ledger(f.Context())
	f.must(err)
	last := int64(0)
	for _, e := range history {
		placement := strings.HasPrefix(e.Key, ledger.PrefixNode) || strings.HasPrefix(e.Key, registry.PrefixGuard) ||
			strings.HasPrefix(e.Key, registry.PrefixTerm)
		if e.ModRevision <= after || !placement {
			continue
		}
		writes++
		if e.ModRevision != last {
			txns++
		}
		last = e.ModRevision
	}
	return txns, writes
}

// What a placement costs the ledger: everything is counted, from the reservation to its
// removal.
func TestCostOfAPlacement(t *testing.T) {
	s := newStack(t, sixtyNodes)
	f := newFleet(s)
	ns := s.namespace("alone")
	begin := f.waitHandedOver()
	for i := range alone {
		s.create(newPods(ns, fmt.Sprintf("pod-%d", i), 1, "50m")...)
		s.bound(ns, i+1, placedWithin)
	}
	end := f.waitHandedOver()
	txns, writes := f.spent(begin.Revision)
	perPod := float64(writes) / alone
	t.Logf("one by one: %.2f writes and %.2f transactions a pod", perPod, float64(txns)/alone)
	if perPod > writesAlone {
		t.Errorf("%.2f writes a pod, want at most %.1f", perPod, writesAlone)
	}

	// As fast as the API server takes them, which is slower than two shards place them.
	ns = s.namespace("arriving")
	s.create(newPods(ns, "pod", coming, "50m")...)
	s.bound(ns, coming, recoveredWithin)
	size := f.waitHandedOver()
	txns, writes = f.spent(end.Revision)
	t.Logf("as they come: %.2f writes and %.2f transactions a pod",
		float64(writes)/coming, float64(txns)/coming)

	// All at once: there is always a pod waiting, as under load.
	for i := range 2 {
		s.must(f.members[fmt.Sprintf("scheduler-%d", i)].Stop(t.Context()))
	}
	ns = s.namespace("together")
	s.create(newPods(ns, "pod", together, "50m")...)
	f.start("scheduler", "scheduler-2")
	f.start("scheduler", "scheduler-3")
	s.bound(ns, together, recoveredWithin)
	f.waitHandedOver()
	txns, writes = f.spent(size.Revision)
	perPod = float64(txns) / together
	t.Logf("%d at once: %.2f writes and %.2f transactions a pod", together, float64(writes)/together, perPod)
	if perPod > txnsTogether {
		t.Errorf("%.2f transactions a pod, want at most %.1f", perPod, txnsTogether)
	}
}

// However many pods have come and gone, the ledger holds only the pods in flight, and a small document for each node.
func TestLedgerDoesNotGrow(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	f := newFleet(s)
	ns := s.namespace("load")
	s.create(newPods(ns, "first", wave, "50m")...)
	s.bound(ns, wave, placedWithin)
	empty := f.waitHandedOver()
	most, pods := empty, 0
	begin := time.Now()
	pace := rate.NewLimiter(rate.Every(*loadEvery), 1)
	for round := 0; time.Since(begin) < *loadFor; round++ {
		s.must(pace.Wait(t.Context()))
		s.must(s.client.CoreV1().Pods(ns).DeleteCollection(t.Context(),
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
		s.eventually(placedWithin, "the pods are gone", func(context.Context) (string, error) {
			return map[bool]string{false: "some are there"}[len(s.pods(ns)) == 0], nil
		})
		s.create(newPods(ns, fmt.Sprintf("round-%d", round), wave, "50m")...)
		size, err := f.etcd.Size(t.Context())
		s.must(err)
		if pods += wave; size.Bytes > most.Bytes {
			most = size
		}
		s.bound(ns, wave, placedWithin)
	}
	end := f.waitHandedOver()
	t.Logf("%d pods in %s, %d revisions of the ledger",
		pods, time.Since(begin).Round(time.Second), end.Revision-empty.Revision)
	t.Logf("empty: %d keys, %d bytes; at most %d bytes and %d entries; at the end %d keys, %d bytes",
		empty.Keys, empty.Bytes, most.Bytes, most.Entries, end.Keys, end.Bytes)
	if limit := empty.Bytes + 2*wave*perPodInFlight; most.Bytes > limit {
		t.Errorf("%d bytes with at most %d pods in flight, want no more than %d", most.Bytes, 2*wave, limit)
	}
	if end.Keys != empty.Keys || end.Bytes > empty.Bytes+empty.Bytes/10 {
		t.Errorf("%d keys and %d bytes at the end, want %d and about %d", end.Keys, end.Bytes, empty.Keys, empty.Bytes)
	}
}
