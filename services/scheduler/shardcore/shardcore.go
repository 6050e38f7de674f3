// Package shardcore is the decision core of a scheduler shard for those who drive it by hand
// instead of running the service: the simulation of the whole system (test/sim). It adds
// nothing to internal/decide, where to start reading; the aliases are the promise that what
// is simulated is what runs.
package shardcore

import "github.com/berth-scheduler/berth/services/scheduler/internal/decide"

// The core, what goes into it and what comes out.
type (
	Core    = decide.Core
	Config  = decide.Config
	Input   = decide.Input
	Result  = decide.Result
	Output  = decide.Output
	Commit  = decide.Commit
	Attempt = decide.Attempt
)

// New returns a core that knows nothing yet.
func New(cfg Config) *Core { return decide.New(cfg) }
