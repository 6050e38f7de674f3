package events_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/events/work"
)

var record = flag.Bool("record", false,
	"write the golden files of the current schema version that do not exist yet; those that do are never changed")

// golden is one recorded message: the whole record of facts and decisions, the data of bus
// messages.
type golden struct {
	Subject string          `json:"subject,omitempty"`
	Header  eventlog.Header `json:"header,omitempty"`
	Data    []byte          `json:"data,omitempty"`
}

// samples are one value of every shape. A new field gets a new sample; an old sample is the content of old files
// and does not change.
var samples = map[string]any{
	"fact-upsert": events.Fact{
		Kind: events.KindPod, Op: events.OpUpsert, UID: "0b9e8c6a-5d3c-4f4e-9a55-0d4c6c0b2f11", Namespace: "shop",
		Name: "cart-7d9f-x2x", ResourceVersion: 90210, Progress: 90200, Epoch: 3, Cause: "watch",
		Object: []byte("\x0a\x04cart"), TraceParent: "00-0b9e8c6a5d3c4f4e9a550d4c6c0b2f11-b7ad6b7169203331-01",
	},
	"fact-delete": events.Fact{
		Kind: events.KindNode, Op: events.OpDelete, UID: "node-1", Name: "node-1.example", ResourceVersion: 7, Progress: 7,
		Cause: "list",
	},
	"fact-progress": events.Fact{
		Kind: events.KindVolumeClaim, Op: events.OpProgress, Progress: 18446744073709551615, Cause: "bookmark",
	},
	"fact-epoch-begin": events.Fact{Op: events.OpEpochBegin, Epoch: 4, Cause: "repair"},
	"fact-epoch-end":   events.Fact{Op: events.OpEpochEnd, Epoch: 4, Cause: "repair"},
	"fact-escaped": events.Fact{
		Kind: events.KindService, Op: events.OpUpsert, UID: "ü.%", Name: "a b", Cause: "list", Object: []byte{0},
	},
	"decision-placed": events.Decision{
		Kind:          events.DecisionPlaced,
		Pod:           events.PodRef{UID: "0b9e8c6a-5d3c-4f4e-9a55-0d4c6c0b2f11", Namespace: "shop", Name: "cart-7d9f-x2x"},
		SchedulerName: "default-scheduler", Actor: "scheduler-0-x7k2", Attempt: 2, Token: "00f1a2b3c4d5e6f7",
		FactSequence: 1234, LedgerRevision: 987, PodResourceVersion: 90210, NodeUID: "node-1", NodeName: "node-1.example",
		NodesTotal: 1000, NodesFeasible: 37, Seed: 0xfeedfacecafebeef,
		TraceParent: "00-0b9e8c6a5d3c4f4e9a550d4c6c0b2f11-b7ad6b7169203331-01",
	},
	"decision-evidence": events.Decision{
		Kind: events.DecisionPlaced, Pod: events.PodRef{UID: "pod-7", Namespace: "shop", Name: "api"},
		Actor: "scheduler-0-x7k2", Attempt: 1, Token: "00f1a2b3c4d5e6f8", FactSequence: 1300, LedgerRevision: 990,
		NodeName: "node-1.example", NodesTotal: 1000, NodesFeasible: 960, Seed: 7,
		Evidence: &evidence.Evidence{
			Config: 0xfeedfacecafebeef, Class: 0x0123456789abcdef, LedgerRevision: 985, Order: 412, Staged: []uint64{410, 411},
			Home: true, Stale: 2, Rejected: map[string]int32{"NodeResourcesFit": 30, "TaintToleration": 8},
			ScoredBy: []string{"NodeResourcesFit", "InterPodAffinity"},
			Candidates: []evidence.Candidate{
				{Node: "node-1.example", Total: 160, Points: []int64{160, 0}},
				{Node: "node-2.example", Total: 90, Points: []int64{92, -2}},
			},
			Cause: "AssignedPodDelete", Waited: 1500 * time.Microsecond,
			Considered: 42 * time.Microsecond, Reserved: 1700 * time.Microsecond,
		},
	},
	"decision-basis": events.Decision{
		Kind: events.DecisionPlaced, Pod: events.PodRef{UID: "pod-9", Namespace: "shop", Name: "api"},
		Actor: "scheduler-0-x7k2", Attempt: 1, Token: "00f1a2b3c4d5e6fa", FactSequence: 1310, LedgerRevision: 995,
		NodeName: "node-3.example", Evidence: &evidence.Evidence{
			LedgerRevision: 992, Order: 413,
			Basis: evidence.Basis{
				LookNumber: 500, FactEpoch: 4, Learned: []evidence.Learned{{Revision: 993}, {Revision: 994, Key: "n/node-1"}},
				LeftAlone: []string{"node-4.example"}, Avoided: []string{"node-5.example"}, Unlisted: true,
				Preferred: "node-3.example", Start: 17, HomeStart: 4, Alternative: 2, Way: evidence.WayKept, NoHomePreference: true,
			},
		},
	},
	"decision-basis-nominations": events.Decision{
		Kind: events.DecisionPlaced, Pod: events.PodRef{UID: "pod-9", Namespace: "shop", Name: "api"},
		Actor: "scheduler-0-x7k2", Attempt: 1, Token: "00f1a2b3c4d5e6fa", FactSequence: 1310, LedgerRevision: 995,
		NodeName: "node-3.example", Evidence: &evidence.Evidence{
			LedgerRevision: 992, Order: 413, Basis: evidence.Basis{LookNumber: 500, FactEpoch: 4, Nominations: true},
		},
	},
	"decision-held": events.Decision{
		Kind: events.DecisionNominated, Pod: events.PodRef{UID: "pod-10", Namespace: "shop", Name: "api"},
		Actor: "scheduler-0-x7k2", Attempt: 1, Token: "00f1a2b3c4d5e6fb", FactSequence: 1311, LedgerRevision: 997,
		NodeName: "node-3.example", Message: "0/3 nodes are available: 3 Insufficient cpu.",
		Evidence: &evidence.Evidence{LedgerRevision: 996, Order: 414, Basis: evidence.Basis{
			LookNumber: 502, FactEpoch: 4, Spared: []string{"pod-1"}, Way: evidence.WayHeld,
		}},
	},
	"decision-lost": events.Decision{
		Kind: events.DecisionLost, Pod: events.PodRef{UID: "pod-8", Namespace: "shop", Name: "api"},
		Actor: "scheduler-1-aaaa", Attempt: 1, Token: "00f1a2b3c4d5e6f9", NodeName: "node-1.example", Message: "node",
		Evidence: &evidence.Evidence{Order: 9},
	},
	"decision-unplaceable": events.Decision{
		Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "pod-2", Namespace: "shop", Name: "big"},
		Actor: "scheduler-1-aaaa", Attempt: 1, Token: "1", NodesTotal: 3,
		Message: "0/3 nodes are available: 2 Insufficient cpu, 1 Too many pods.",
		Plugins: []string{"NodeResourcesFit"}, Reasons: map[string]int32{"Insufficient cpu": 2, "Too many pods": 1},
	},
	"decision-unplaceable-stale-nomination": events.Decision{
		Kind: events.DecisionUnplaceable, Pod: events.PodRef{UID: "pod-2", Namespace: "shop", Name: "big"},
		Actor: "scheduler-1-aaaa", Attempt: 1, Token: "1", NodesTotal: 3,
		Message: "0/3 nodes are available: 3 Insufficient cpu.", StaleNomination: "node-9.example",
	},
	"decision-evict": events.Decision{
		Kind: events.DecisionEvict, Pod: events.PodRef{UID: "pod-3", Namespace: "shop", Name: "old"}, Actor: "descheduler-b",
		NodeUID: "node-1", NodeName: "node-1.example", Strategy: "RemoveDuplicates",
	},
	"decision-evict-youngest": events.Decision{
		Kind: events.DecisionEvict, Pod: events.PodRef{UID: "pod-3", Namespace: "shop", Name: "old"}, Actor: "descheduler-b",
		NodeUID: "node-1", NodeName: "node-1.example", Strategy: "RemoveDuplicates", Owner: "rs-1", Landing: "node-2.example",
		Youngest: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	},
	"decision-evict-tell": events.Decision{
		Kind: events.DecisionEvict, Pod: events.PodRef{UID: "pod-3", Namespace: "shop", Name: "old"}, Actor: "descheduler-b",
		NodeUID: "node-1", NodeName: "node-1.example", Strategy: "RemoveDuplicates", EventOnFailure: true,
	},
	"decision-evict-until": events.Decision{
		Kind: events.DecisionEvict, Pod: events.PodRef{UID: "pod-3", Namespace: "shop", Name: "old"}, Actor: "descheduler-b",
		NodeUID: "node-1", NodeName: "node-1.example", Strategy: "RemoveDuplicates", FactEpoch: 4,
		NotAfter: time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.UTC),
	},
	"decision-rejected": events.Decision{
		Kind: events.DecisionRejected, Pod: events.PodRef{UID: "pod-6", Namespace: "shop", Name: "tight"}, Actor: "binder-b",
		Token: "00f1a2b3c4d5e6f7", NodeName: "node-1.example", Message: "OutOfcpu: Pod was rejected: Node didn't have enough",
	},
	"turn-asked":   work.Turn{NodeUID: "node-1", Shard: "scheduler-0-x7k2"},
	"turn-granted": work.Turn{NodeUID: "node-1", Shard: "scheduler-0-x7k2", Granted: true},
	"work-request": work.Request{
		Shard: "scheduler-0-x7k2", Window: 64, Renew: []string{"a", "b"}, Return: []string{"c"},
	},
	"work-request-activate": work.Request{Shard: "scheduler-0-x7k2", Activate: []string{"pod-7", "pod-8"}},
	"offers": work.OfferBatch{Queue: "queue-x", Term: 77, Offers: []work.Offer{{
		Pod:       events.PodRef{UID: "pod-4", Namespace: "shop", Name: "web"},
		Partition: 200, Token: "00f1a2b3c4d5e6f7", Attempt: 3, FactSequence: 55, LeaseMillis: 15000,
		TraceParent: "00-0b9e8c6a5d3c4f4e9a550d4c6c0b2f11-b7ad6b7169203331-01",
	}, {Pod: events.PodRef{UID: "pod-5"}}}},
}

func encode(t *testing.T, value any) golden {
	t.Helper()
	var m eventlog.Message
	switch v := value.(type) {
	case events.Fact:
		m = events.EncodeFact(v)
	case events.Decision:
		m = events.EncodeDecision(v)
	case work.Request:
		m.Data = work.EncodeRequest(v)
	case work.OfferBatch:
		m.Data = work.EncodeOffers(v)
	case work.Turn:
		m.Data = work.EncodeTurn(v)
	default:
		t.Fatalf("sample of type %T", value)
	}
	return golden(m)
}

// decode decodes g as the shape of like.
func decode(t *testing.T, like any, g golden) any {
	t.Helper()
	var value any
	var err error
	r := eventlog.Record{Message: eventlog.Message(g), Sequence: 1}
	switch like.(type) {
	case events.Fact:
		var f events.SequencedFact
		f, err = events.DecodeFact(r)
		value = f.Fact
	case events.Decision:
		var d events.SequencedDecision
		d, err = events.DecodeDecision(r)
		value = d.Decision
	case work.Request:
		value, err = work.DecodeRequest(g.Data)
	case work.OfferBatch:
		value, err = work.DecodeOffers(g.Data)
	case work.Turn:
		value, err = work.DecodeTurn(g.Data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func goldenFile(version int, name string) string {
	return filepath.Join("testdata", fmt.Sprintf("v%d", version), name+".json")
}

// TestGoldenCurrent: what is written now is what this version has always written.
func TestGoldenCurrent(t *testing.T) {
	for name, sample := range samples {
		file := goldenFile(events.SchemaVersion, name)
		g := encode(t, sample)
		stored, err := os.ReadFile(file)
		if os.IsNotExist(err) && *record {
			writeGolden(t, file, g)
			continue
		}
		if err != nil {
			t.Errorf("%v (a new sample is written with -record)", err)
			continue
		}
		var want golden
		if err := json.Unmarshal(stored, &want); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		want.Subject = g.Subject // not part of the schema: readers ignore it
		if diff := cmp.Diff(want, g); diff != "" {
			t.Errorf("%s: the encoding of schema version %d has changed; that takes a new version (-recorded +now):\n%s",
				file, events.SchemaVersion, diff)
		}
	}
}

func writeGolden(t *testing.T, file string, g golden) {
	t.Helper()
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("recorded %s", file)
}

// TestGoldenReadable: every message of every version ever written still decodes to its original content.
func TestGoldenReadable(t *testing.T) {
	for version := 1; version <= events.SchemaVersion; version++ {
		files, err := filepath.Glob(goldenFile(version, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no golden files of version %d: %v", version, err)
		}
		slices.Sort(files)
		for _, file := range files {
			name := filepath.Base(file)
			name = name[:len(name)-len(".json")]
			sample, ok := samples[name]
			if !ok {
				t.Errorf("%s: no sample says what it holds", file)
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var g golden
			if err := json.Unmarshal(text, &g); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if diff := cmp.Diff(sample, decode(t, sample, g)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		}
	}
}
