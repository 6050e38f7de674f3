package past_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/cmd/berth/internal/past"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// subjects has one subject of each stream.
var subjects = map[eventlog.Stream]string{
	eventlog.Facts: "facts.pod.a", eventlog.Decisions: "decisions.a.placed",
	eventlog.Ledger: eventlog.SubjectLedgerChanges,
}

// fill appends n records of some kilobytes to each stream.
func fill(t *testing.T, log *memlog.Log, n int) {
	t.Helper()
	for stream, subject := range subjects {
		for i := range n {
			m := eventlog.Message{
				Subject: subject, Header: eventlog.NewHeader(map[string]string{"kind": "pod", "number": fmt.Sprint(i)}),
				Data: bytes.Repeat([]byte{byte(i), 0, 255}, 1000),
			}
			if stream == eventlog.Facts {
				m = budget(t, i)
			}
			if _, err := log.Append(t.Context(), stream, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// budget returns the fact of an object of some kilobytes, of which nothing is stripped.
func budget(t *testing.T, number int) eventlog.Message {
	t.Helper()
	o := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: fmt.Sprint(number), UID: types.UID(fmt.Sprint(number)),
		Annotations: map[string]string{"filler": strings.Repeat(fmt.Sprint(number), 1000)},
	}}
	data, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return events.EncodeFact(events.Fact{
		Kind: events.KindDisruptionBudget, Op: events.OpUpsert, UID: string(o.UID), Namespace: o.Namespace, Name: o.Name,
		ResourceVersion: 1, Epoch: 1, Object: data,
	})
}

func export(t *testing.T, src rerun.Source, c past.Contents) (past.Manifest, string) {
	t.Helper()
	var file bytes.Buffer
	m, err := past.Export(t.Context(), &file, src, c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bundle.tar")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return m, path
}

func open(t *testing.T, path string) *past.Bundle {
	t.Helper()
	b, err := past.OpenBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func read(t *testing.T, src rerun.Source, s eventlog.Stream, from uint64) []eventlog.Record {
	t.Helper()
	records, err := src.Open(t.Context(), s, from)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	var all []eventlog.Record
	for {
		r, err := records.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Time = r.Time.UTC()
		all = append(all, r)
	}
}

// A bundle has what the log had: every record of every stream, from wherever reading begins, the snapshot and the
// configuration. The log keeps growing during the export, and its beginning may be gone.
func TestBundleIsTheLog(t *testing.T) {
	const records = 6000 // several members of each stream
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	fill(t, log, records)
	log.Trim(eventlog.Facts, 11)
	snapshot := snapshotOf(t, state.New())
	if err := log.Put(t.Context(), eventlog.Facts, 20, snapshot); err != nil {
		t.Fatal(err)
	}
	live := past.Live{Log: log}
	m, path := export(t, live, past.Contents{
		Version: "v1", Kubernetes: "1.36", Config: []byte("kind: X\n"), Policy: []byte("kind: Y\n"), Now: time.Unix(1, 0),
	})
	b := open(t, path)
	if diff := cmp.Diff(m, b.Manifest); diff != "" {
		t.Errorf("manifest (-written +read): %s", diff)
	}
	if want := (past.Span{First: 11, Last: records}); m.Streams[eventlog.Facts] != want {
		t.Errorf("facts %+v, want %+v", m.Streams[eventlog.Facts], want)
	}
	if string(b.Config) != "kind: X\n" || string(b.Policy) != "kind: Y\n" {
		t.Errorf("configuration %q and policy %q", b.Config, b.Policy)
	}
	for stream := range subjects {
		for _, from := range []uint64{1, 11, 3000, records, records + 1} {
			want, got := read(t, live, stream, from), read(t, b, stream, from)
			if !slices.EqualFunc(want, got, equal) {
				t.Errorf("%s from %d: the log has %d records, the bundle %d, or others", stream, from, len(want), len(got))
			}
		}
	}
	sequence, data, ok, err := b.Snapshot(t.Context())
	if err != nil || !ok || sequence != 20 || !bytes.Equal(data, snapshot) {
		t.Errorf("snapshot %d %q %t %v, want 20", sequence, data, ok, err)
	}
}

func equal(a, b eventlog.Record) bool {
	return a.Sequence == b.Sequence && a.Time.Equal(b.Time) && a.Subject == b.Subject &&
		a.Header.Equal(b.Header) && bytes.Equal(a.Data, b.Data)
}

// Frames come back whole, from a live log and from a bundle, which then has a format that earlier programs refuse.
func TestBundleOfFrames(t *testing.T) {
	log := memlog.New(memlog.Options{Frames: true})
	const frames, records = 40, 5
	for i := range frames {
		var msgs []eventlog.Message
		for n := range records {
			msgs = append(msgs, budget(t, records*i+n))
		}
		if _, err := log.Append(t.Context(), eventlog.Facts, eventlog.AnySequence, msgs); err != nil {
			t.Fatal(err)
		}
	}
	m, path := export(t, past.Live{Log: log}, past.Contents{})
	if want := (past.Span{First: 1, Last: frames}); m.Format != 2 || m.Streams[eventlog.Facts] != want {
		t.Errorf("format %d with the facts %v, want 2 with %v", m.Format, m.Streams[eventlog.Facts], want)
	}
	for name, src := range map[string]rerun.Source{"live": past.Live{Log: log}, "bundle": open(t, path)} {
		for _, from := range []uint64{1, 17, frames} {
			checkFrames(t, name, read(t, src, eventlog.Facts, from), from, records)
		}
	}
}

// checkFrames checks the positions of what was read of 40 frames from a sequence on.
func checkFrames(t *testing.T, name string, got []eventlog.Record, from uint64, size int) {
	t.Helper()
	if want := size * (41 - int(from)); len(got) != want {
		t.Fatalf("%s, from %d: %d records, want %d", name, from, len(got), want)
	}
	for i, r := range got {
		if r.Sequence != from+uint64(i/size) || r.Index != i%size {
			t.Fatalf("%s, from %d: record %d is %d.%d", name, from, i, r.Sequence, r.Index)
		}
	}
}

func TestEmptyLog(t *testing.T) {
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	_, path := export(t, past.Live{Log: log}, past.Contents{})
	b := open(t, path)
	if got := read(t, b, eventlog.Facts, 1); len(got) != 0 {
		t.Errorf("%d facts in the bundle of an empty log", len(got))
	}
	if _, _, ok, err := b.Snapshot(t.Context()); ok || err != nil {
		t.Errorf("a snapshot in the bundle of an empty log, %v", err)
	}
}

// A file that is not a bundle, or only half of one, is refused with an error that says what is wrong.
func TestNotABundle(t *testing.T) {
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	fill(t, log, 10)
	_, path := export(t, past.Live{Log: log}, past.Contents{})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"empty":   {nil, "not a bundle, or cut off"},
		"text":    {bytes.Repeat([]byte("no tar at all\n"), 100), "not a bundle, or cut off"},
		"cut off": {whole[:len(whole)/2], "cut off"},
		"newer":   {bytes.Replace(whole, []byte("format: 1\n"), []byte("format: 9\n"), 1), "format 9: want 1 to 2"},
	} {
		path := filepath.Join(t.TempDir(), "bundle.tar")
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := past.OpenBundle(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Reading ends with its context.
func TestReadingStops(t *testing.T) {
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	fill(t, log, 10)
	_, path := export(t, past.Live{Log: log}, past.Contents{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	records, err := open(t, path).Open(ctx, eventlog.Facts, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	if _, err := records.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
