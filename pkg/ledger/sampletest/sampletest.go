package sampletest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// Again requires that what can be decoded can be encoded, and decodes to the same.
func Again[T any](t *testing.T, kv ledger.KV, decode func(ledger.KV) (T, error), encode func(T) ([]byte, error)) {
	t.Helper()
	first, err := decode(kv)
	if err != nil {
		return
	}
	if kv.Value, err = encode(first); err != nil {
		var full *ledger.DocTooLargeError
		if !errors.As(err, &full) {
			t.Fatalf("decoded, but cannot be encoded: %v", err)
		}
		return
	}
	back, err := decode(kv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, back); diff != "" {
		t.Errorf("decoded twice (-first +second):\n%s", diff)
	}
}

// Stored returns a document as the store has it.
func Stored(d ledger.NodeDoc, value []byte) ledger.KV {
	return ledger.KV{Key: ledger.KeyNode(d.NodeUID), Value: value, ModRevision: d.Revision}
}

// Full returns a document in which every field of an entry is set.
func Full() ledger.NodeDoc {
	return ledger.NodeDoc{
		NodeUID: "4d1c0a52-6f2c-4d0e-a7f7-2b9a3c1e0d5f", NodeName: "node-17", Revision: 4711,
		HW: map[string]uint64{ledger.KindPod: 987654321, "persistentvolumeclaim": 42},
		Entries: []ledger.Entry{
			{
				PodUID: "0f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Namespace: "shop", Name: "web-6c9f7d-x2x4k",
				Role: ledger.RoleReservation, State: ledger.Committed, Priority: -5, PodRV: 987654320, Token: 0xfeedfacecafebeef,
				Shard: "scheduler-0-x7k2p", SchedulerName: "default-scheduler",
				Requests:   map[string]int64{"cpu": 250, "memory": 1 << 28, "example.com/gpu": 1},
				NonZeroCPU: 250, NonZeroMemory: 1 << 28,
				Ports: []ledger.HostPort{{IP: "0.0.0.0", Protocol: "TCP", Port: 8080}},
				Gang:  "gang-uid", Plan: "plan-1", Wanted: true,
			},
			{PodUID: "static-pod-of-node-17", Role: ledger.RoleVictim, Plan: "plan-1"},
		},
	}
}

// Term returns a registered term with every field.
func Term() registry.RegisteredTerm {
	return registry.RegisteredTerm{Retiring: true, Revision: 11, Term: registry.Term{
		Kind: registry.TermTogether, Parts: []registry.TermPart{
			{Namespaces: []string{"cache", "shop"}, Selector: []registry.Requirement{
				{Key: "app", Operator: "In", Values: []string{"a", "b"}}, {Key: "tier", Operator: "Exists"},
			}},
			{ByLabel: true, NamespaceSelector: []registry.Requirement{{Key: "team", Operator: "NotIn", Values: []string{"x"}}}},
		},
	}}
}

// Pinned returns a document that pins a pod.
func Pinned() ledger.NodeDoc {
	return ledger.NodeDoc{NodeUID: "u", NodeName: "node-3", Revision: 4, Entries: []ledger.Entry{{
		PodUID: "0f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", Namespace: "shop", Name: "cache-0", Role: ledger.RoleKeeper,
		Dependents: []ledger.Dependent{{PodUID: "1f4f0b3e-6f0e-4f5c-9d8e-0a1b2c3d4e5f", PodRV: 9},
			{PodUID: "text", PodRV: 10}},
	}}}
}

// DrawEntry draws an entry that a decoder accepts.
func DrawEntry(t *rapid.T) ledger.Entry {
	text := rapid.StringN(0, 20, 40)
	e := ledger.Entry{
		PodUID: rapid.OneOf(
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-9A-F]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringN(1, 20, 40),
		).Draw(t, "uid"),
		Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"),
		Role:     ledger.Role(rapid.IntRange(int(ledger.RoleReservation), int(ledger.RoleMove)).Draw(t, "role")),
		State:    ledger.State(rapid.IntRange(0, int(ledger.Evicting)).Draw(t, "state")),
		Priority: rapid.Int32().Draw(t, "priority"), PodRV: rapid.Uint64().Draw(t, "rv"),
		Token: ledger.Token(rapid.Uint64().Draw(t, "token")), Shard: text.Draw(t, "shard"),
		SchedulerName: text.Draw(t, "scheduler"), NonZeroCPU: rapid.Int64().Draw(t, "cpu"),
		NonZeroMemory: rapid.Int64().Draw(t, "memory"), Gang: text.Draw(t, "gang"),
		Plan: text.Draw(t, "plan"), Wanted: rapid.Bool().Draw(t, "wanted"),
		GroupPartition: rapid.Int32Range(0, ledger.Partitions).Draw(t, "group partition"),
		Declined:       rapid.Bool().Draw(t, "declined"),
	}
	if m := rapid.MapOfN(text, rapid.Int64(), 0, 4).Draw(t, "requests"); len(m) > 0 {
		e.Requests = m
	}
	if rapid.Bool().Draw(t, "move") {
		e.Replacement = ledger.Replacement{Owner: text.Draw(t, "owner"), Template: text.Draw(t, "template")}
	}
	for range rapid.IntRange(0, 2).Draw(t, "budgets") {
		e.Budgets = append(e.Budgets, text.Draw(t, "budget"))
	}
	if millis := rapid.Int64Range(0, 1<<45).Draw(t, "not after"); millis > 0 {
		e.NotAfter = time.UnixMilli(millis).UTC()
	}
	for range rapid.IntRange(0, 2).Draw(t, "dependents") {
		e.Dependents = append(e.Dependents, ledger.Dependent{
			PodUID: rapid.StringN(1, 20, 40).Draw(t, "dependent"), PodRV: rapid.Uint64().Draw(t, "dependent rv"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "ports") {
		e.Ports = append(e.Ports, ledger.HostPort{
			IP: text.Draw(t, "ip"), Protocol: text.Draw(t, "protocol"), Port: rapid.Int32().Draw(t, "port"),
		})
	}
	return e
}

// Reservation returns a reservation that was decided at resourceVersion 100.
func Reservation(uid string, s ledger.State, token ledger.Token) ledger.Entry {
	return ledger.Entry{PodUID: uid, Role: ledger.RoleReservation, State: s, PodRV: 100, Token: token}
}

// DocOf returns the document of node n1 at revision 7.
func DocOf(entries ...ledger.Entry) ledger.NodeDoc {
	return ledger.NodeDoc{NodeUID: "n1", NodeName: "node-1", HW: map[string]uint64{ledger.KindPod: 50}, Entries: entries,
		Revision: 7}
}

// Frozen runs step and requires that it left its input unchanged.
func Frozen(t *testing.T, d ledger.NodeDoc, step func(ledger.NodeDoc) (ledger.NodeDoc, error)) (ledger.NodeDoc, error) {
	t.Helper()
	before := d.Clone()
	out, err := step(d)
	if diff := cmp.Diff(before, d); diff != "" {
		t.Errorf("the step changed its input:\n%s", diff)
	}
	return out, err
}

// ErrorOf returns the error of building a transaction.
func ErrorOf(_ ledger.Txn, err error) error { return err }

// KVOf returns a document as the store has it.
func KVOf(t *testing.T, d ledger.NodeDoc) ledger.KV {
	t.Helper()
	value, err := codec.EncodeNodeDoc(d)
	if err != nil {
		t.Fatal(err)
	}
	return Stored(d, value)
}

// At returns a document as read at a revision.
func At(d ledger.NodeDoc, revision int64) ledger.NodeDoc {
	d.Revision = revision
	return d
}

// Apply applies events to a view and returns what changed.
func Apply(t *testing.T, v *replica.View, revision int64, events ...ledger.Event) replica.Changes {
	t.Helper()
	c, err := v.Apply(ledger.EventBatch{Revision: revision, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
