//go:build e2e && upgrade

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

const (
	// laterField is a field that no version of the ledger's values has.
	laterField = 9000
	// laterEvery is how often a member of the later version writes, at the most.
	laterEvery = 20 * time.Millisecond
	// laterKept is how many values with such a field have to be written again by members of this version.
	laterKept = 100
)

// laterPrefixes are those of values that members of a later version may add fields to.
var laterPrefixes = []string{
	ledger.PrefixNode, ledger.PrefixBudget, ledger.PrefixPlan, registry.KeyTermRegistry, ledger.KeyFloor,
}

// A member of a later version, which knows fields that this version does not, writes them into documents,
// entries and records of the ledger while pods arrive, are preempted and moved. Members of this version
// write those values again and again, and the fields stay.
func TestFieldsOfALaterVersionStay(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	m := newMixed(s, programs)
	store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{m.etcdURL}})
	s.must(err)
	t.Cleanup(func() { s.must(store.Close()) })
	later := &laterMember{store: store, known: map[string]ledger.KV{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- later.run(ctx) }()
	stop := m.load()
	for i := range 3 {
		m.works(fmt.Sprintf("fields of a later version, %d", i))
	}
	arrived := stop()
	s.bound(m.namespace, arrived, recoveredWithin)
	cancel()
	s.must(<-ended)
	t.Logf("%d pods; %d values were given fields of a later version, %d were written again with them by others",
		arrived, later.written, later.kept)
	if later.kept < laterKept {
		t.Errorf("%d values with fields of a later version were written again, want %d at least", later.kept, laterKept)
	}
	for _, wrong := range later.dropped {
		t.Error(wrong)
	}
	s.boundAtMostOnce(m.namespace)
	s.audit()
}

// laterMember writes as a later version would, and observes the fate of its fields.
type laterMember struct {
	store ledger.Store
	// known is every value as it is.
	known         map[string]ledger.KV
	written, kept int
	dropped       []string
	// own is the revision of its last write.
	own int64
}

func (l *laterMember) run(ctx context.Context) error {
	kvs, revision, err := l.store.List(ctx, "")
	if err != nil {
		return err
	}
	for _, kv := range kvs {
		l.known[kv.Key] = kv
	}
	watch := l.store.Watch(ctx, "", revision+1)
	tick := time.NewTicker(laterEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case batch, ok := <-watch.Batches():
			if !ok && ctx.Err() == nil {
				return errors.Join(errors.New("the watch of the ledger broke"), watch.Err())
			}
			for _, ev := range batch.Events {
				l.look(ev)
			}
		case <-tick.C:
			if err := l.write(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// look compares a new value with the previous one.
func (l *laterMember) look(ev ledger.Event) {
	before := l.known[ev.Key]
	delete(l.known, ev.Key)
	if ev.Deleted {
		return
	}
	l.known[ev.Key] = ev.KV
	if ev.ModRevision == l.own || !hasLater(before.Value) {
		return
	}
	if !hasLater(ev.Value) {
		l.dropped = append(l.dropped,
			fmt.Sprintf("revision %d of %s has lost the field of a later version", ev.ModRevision, ev.Key))
		return
	}
	l.kept++
	if strings.HasPrefix(ev.Key, ledger.PrefixNode) {
		l.lookAtEntries(before, ev.KV)
	}
}

func (l *laterMember) lookAtEntries(before, after ledger.KV) {
	old, err := codec.DecodeNodeDoc(before)
	now, err2 := codec.DecodeNodeDoc(after)
	if err = errors.Join(err, err2); err != nil {
		l.dropped = append(l.dropped, err.Error())
		return
	}
	for _, e := range old.Entries {
		kept, ok := now.Find(e.PodUID)
		if ok && kept.Token == e.Token && kept.Role == e.Role && len(kept.Later) < len(e.Later) {
			l.dropped = append(l.dropped, fmt.Sprintf("revision %d of %s has lost the field of a later version of pod %s",
				after.ModRevision, after.Key, e.PodUID))
		}
	}
}

// write gives one value that has none a field of a later version, and each entry in it one.
func (l *laterMember) write(ctx context.Context) error {
	for key, kv := range l.known {
		if !mayHaveLater(key) || hasLater(kv.Value) {
			continue
		}
		value := append([]byte(nil), kv.Value...)
		if strings.HasPrefix(key, ledger.PrefixNode) {
			d, err := codec.DecodeNodeDoc(kv)
			if err != nil {
				return err
			}
			for i := range d.Entries {
				d.Entries[i].Later = string(later())
			}
			if value, err = codec.EncodeNodeDoc(d); err != nil {
				return err
			}
		}
		r, err := l.store.Commit(ctx, ledger.Txn{
			Compares: []ledger.Compare{{Key: key, Target: ledger.ModRevision, Revision: kv.ModRevision}},
			Puts:     []ledger.Put{{Key: key, Value: append(value, later()...)}},
		})
		if err == nil && r.Succeeded {
			l.written++
			l.own = r.Revision
		}
		return err
	}
	return nil
}

func mayHaveLater(key string) bool {
	for _, prefix := range laterPrefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func later() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, laterField, protowire.BytesType), "later")
}

// hasLater reports whether a message has a field of a later version.
func hasLater(message []byte) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		if number == laterField {
			return true
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return false
		}
		message = message[n:]
	}
	return false
}
