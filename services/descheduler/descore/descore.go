package descore

import (
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/descheduler/internal/decide"
)

type (
	// Input is decide.Input.
	Input = decide.Input
	// Outcome is decide.Outcome.
	Outcome = decide.Outcome
	// Eviction is decide.Eviction.
	Eviction = decide.Eviction
	// Promises is decide.Promises.
	Promises = decide.Promises
)

// Cycle is decide.Cycle.
func Cycle(in Input) Outcome { return decide.Cycle(in) }

// NewPromises is decide.NewPromises.
func NewPromises(cluster *state.Snapshot, l *replica.View) *Promises {
	return decide.NewPromises(cluster, l)
}
