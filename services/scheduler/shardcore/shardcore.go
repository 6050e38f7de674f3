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
