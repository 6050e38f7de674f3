package placement

import (
	"fmt"
	"slices"
)

// HomePolicy is when a shard tries its home nodes before all others, for pods that state no preference among nodes.
type HomePolicy string

const (
	// HomeAuto: while shards would otherwise choose the same nodes at the same time. The default.
	HomeAuto HomePolicy = "auto"
	// HomeAlways: in every decision.
	HomeAlways HomePolicy = "always"
	// HomeNever: every decision evaluates all nodes, and chooses one of the best.
	HomeNever HomePolicy = "never"
)

// HomePolicies lists the accepted values.
func HomePolicies() []HomePolicy { return []HomePolicy{HomeAuto, HomeAlways, HomeNever} }

// check returns an error unless the policy is an accepted value or empty.
func (p HomePolicy) check() error {
	if p == "" || slices.Contains(HomePolicies(), p) {
		return nil
	}
	return fmt.Errorf("homeNodesFirst is %q, want %s, %s or %s", string(p), HomeAuto, HomeAlways, HomeNever)
}

// HomeNodesFirst returns when a shard tries its home nodes first; empty if the profile does not say.
func (p *Profile) HomeNodesFirst() HomePolicy { return p.homeFirst }
