package statetest

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Fataler is the part of testing.TB that rapid.T has as well.
type Fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Snapshot returns the snapshot of a cluster with these objects.
func Snapshot(t Fataler, objects ...state.APIObject) *state.Snapshot {
	t.Helper()
	var h History
	for _, o := range objects {
		h.Upsert(kindOf(o), o)
	}
	store := state.New()
	if _, err := store.Apply(h.Facts); err != nil {
		t.Fatalf("apply: %v", err)
	}
	return store.Snapshot()
}

// kindOf returns the kind of an object: its type's name.
func kindOf(o state.APIObject) events.Kind {
	kind := strings.ToLower(fmt.Sprintf("%T", o))
	return events.Kind(kind[strings.LastIndexByte(kind, '.')+1:])
}
