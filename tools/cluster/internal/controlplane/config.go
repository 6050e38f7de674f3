package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/tools/cluster/internal/build"
)

// Config describes the control plane to start.
type Config struct {
	// Layout finds the programs.
	Layout build.Layout
	// Dir is the cluster's directory, absolute.
	Dir string
	// Kubernetes is the minor version of the control plane, one of build.Minors;
	// empty for the current one.
	Kubernetes string
	// Port is the API server's, on the loopback address. Zero means any free one.
	Port int
	// Sync has etcd reach the disk with every write. Off by default: a test
	// cluster is thrown away, and disks of test machines differ widely.
	Sync bool
	// KWOK runs simulated kubelets for all nodes.
	KWOK bool
	// Controllers is "all", "none" or a list in the notation of
	// kube-controller-manager's --controllers flag.
	Controllers string
	// NodeLease is the lease duration of KWOK's nodes, at least 10 s, in whole
	// seconds; a node is renewed every quarter of it and called lost after it.
	// Zero means 200 s.
	NodeLease time.Duration
	// Stages is a file with KWOK stages to use in addition; empty for none.
	Stages string
	// MaxRequests and MaxMutatingRequests bound the API server's concurrency.
	// Zero means 1000 and 500.
	MaxRequests, MaxMutatingRequests int
	// RuntimeConfig selects the APIs that the API server serves, in the notation of its flag of this name, such as
	// "resource.k8s.io/v1=false" (without the authorizer for nodes then); empty for its defaults.
	RuntimeConfig string
	// FeatureGates turns feature gates of the API server on or off, in the notation of its flag of this name, such as
	// "GenericWorkload=true"; empty for its defaults.
	FeatureGates string
}

const (
	allControllers = "all"
	noControllers  = "none"
	nodeLifecycle  = "node-lifecycle-controller"
)

// withDefaults replaces zero values by their defaults.
func (c Config) withDefaults() Config {
	if c.NodeLease == 0 {
		c.NodeLease = 200 * time.Second
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = 1000
	}
	if c.MaxMutatingRequests == 0 {
		c.MaxMutatingRequests = 500
	}
	return c
}

// Validate returns an error with the invalid field and its accepted values.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.Kubernetes != "" && !slices.Contains(build.Minors(), c.Kubernetes) {
		return fmt.Errorf("kubernetes %q: want %s, or empty for the current version",
			c.Kubernetes, strings.Join(build.Minors(), " or "))
	}
	if c.NodeLease < 10*time.Second || c.NodeLease%time.Second != 0 {
		return fmt.Errorf("node lease %s: want whole seconds, 10s or more", c.NodeLease)
	}
	if strings.TrimSpace(c.Controllers) == "" {
		return fmt.Errorf("controllers %q: want %q, %q or a list such as \"*,-%s\"",
			c.Controllers, allControllers, noControllers, nodeLifecycle)
	}
	if c.MaxRequests < 0 || c.MaxMutatingRequests < 0 {
		return fmt.Errorf("requests in flight %d and %d: want positive numbers, or 0 for the default",
			c.MaxRequests, c.MaxMutatingRequests)
	}
	if !areSwitches(c.RuntimeConfig) {
		return fmt.Errorf("runtime config %q: want group/version=true or =false, separated by commas", c.RuntimeConfig)
	}
	if !areSwitches(c.FeatureGates) {
		return fmt.Errorf("feature gates %q: want gate=true or =false, separated by commas", c.FeatureGates)
	}
	if c.Stages != "" && !c.KWOK {
		return fmt.Errorf("stages %q: want none without KWOK", c.Stages)
	}
	return nil
}

// areSwitches reports whether a list is empty, or gives each of its names true or false.
func areSwitches(list string) bool {
	for _, one := range strings.Split(list, ",") {
		if _, value, ok := strings.Cut(one, "="); list != "" && (!ok || value != "true" && value != "false") {
			return false
		}
	}
	return true
}

// authorizers is the value of the API server's --authorization-mode flag. The one for nodes waits for
// ResourceSlices, and the server is never ready without them; simulated kubelets do without it.
func (c Config) authorizers() string {
	if strings.Contains(c.RuntimeConfig, "resource.k8s.io/v1=false") {
		return "RBAC"
	}
	return "Node,RBAC"
}

// controllerList is the value of the --controllers flag.
func (c Config) controllerList() string {
	if c.Controllers != allControllers {
		return c.Controllers
	}
	if c.KWOK {
		return "*"
	}
	return "*,-" + nodeLifecycle
}
