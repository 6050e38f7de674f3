package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/plugins"
)

// Option configures the program in its main function. Options are applied in order, before the command line is read;
// all of their errors are reported.
type Option func() error

// WithVersion sets the version that `berth version` prints.
func WithVersion(v string) Option {
	return func() error {
		version = v
		return nil
	}
}

// WithPlugin compiles a plugin in, so that profiles can enable it by its name. Source: app.WithPlugin in
// cmd/kube-scheduler.
func WithPlugin(name string, factory plugins.Factory) Option {
	return func() error {
		switch {
		case name == "" || factory == nil:
			return fmt.Errorf("plugin %q: want a name and a factory", name)
		case slices.Contains(placement.KnownPlugins(), name):
			return fmt.Errorf("plugin %q: name is taken by a kube-scheduler plugin, want another name", name)
		case compiledIn[name] != nil:
			return fmt.Errorf("plugin %q: given twice, want once", name)
		}
		compiledIn[name] = factory
		return nil
	}
}

// WithPodsToActivate is for programs whose plugins store pods under upstream's framework.PodsToActivateKey. create
// must be framework.NewPodsToActivate of k8s.io/kubernetes/pkg/scheduler/framework: the type of the stored value is
// upstream's, and Berth does not depend on that module.
func WithPodsToActivate[T framework.StateData](create func() T) Option {
	return func() (err error) {
		if create == nil {
			return errors.New("pods to activate: want framework.NewPodsToActivate")
		}
		podsToActivate, err = plugins.NewPodsToActivate(func() framework.StateData { return create() })
		if err != nil {
			return fmt.Errorf("pods to activate: %w", err)
		}
		return nil
	}
}

// podsToActivate is nil unless WithPodsToActivate was given. It is written before the command runs, and only read
// afterwards.
var podsToActivate *plugins.PodsToActivate

// compiledIn holds the factories of the plugins of this program, by name. It is written before the command runs, and
// only read afterwards.
var compiledIn = map[string]plugins.Factory{}

// pluginNames returns the names of the plugins of this program, sorted: a configuration may enable these in addition
// to upstream's.
func pluginNames() []string { return slices.Sorted(maps.Keys(compiledIn)) }

// apply applies the options and returns all their errors.
func apply(options []Option) error {
	var errs []error
	for _, o := range options {
		errs = append(errs, o())
	}
	return errors.Join(errs...)
}
