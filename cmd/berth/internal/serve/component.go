package serve

import (
	"net/http"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/statusz"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Component describes the process on the pages that Kubernetes' components have: /configz, /flagz and /statusz.
type Component struct {
	// Name is the component's name, such as berth-scheduler.
	Name string
	// Version is the version of the binary; one that is no version, such as that of a build of a working tree, is shown
	// as 0.0.
	Version string
	// Flags are the flags of the command; hidden ones are not shown, nor the values of those with the annotation
	// "classified". It is only read.
	Flags *pflag.FlagSet
	// Configuration is the effective configuration, shown under the name that kube-scheduler's has.
	Configuration runtime.Object
}

// configurationName is the name of kube-scheduler's configuration on /configz.
const configurationName = "componentconfig"

// describe serves the pages of a component, and last the one that lists all pages.
func (s *Server) describe(c Component) error {
	configz.Delete(configurationName) // of a server that was in this process before: the library keeps one list
	shown, err := configz.New(configurationName)
	if err != nil {
		return err
	}
	if err := shown.Set(c.Configuration); err != nil {
		return err
	}
	configz.InstallHandler(privately{s})
	flags := cliflag.NamedFlagSets{}
	c.Flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.FlagSet(c.Name).AddFlag(f)
		}
	})
	flagz.Install(privately{s}, c.Name, flagz.NamedFlagSetsReader{FlagSets: flags})
	listed := statusz.WithListedPaths(append(s.paths, statusz.DefaultStatuszPath))
	statusz.Install(s, c.Name, statusz.NewRegistry(effectiveVersion(c.Version), listed))
	return nil
}

// Handle serves a path for the libraries that install their pages themselves. It implements their mux.
func (s *Server) Handle(path string, h http.Handler) { s.AddHandler(path, h) }

// privately serves paths that show what a process was given, such as addresses and names of files, to clients that
// Server.private lets through. kube-scheduler serves them to authorised clients alone.
type privately struct{ *Server }

// Handle serves a path.
func (p privately) Handle(path string, h http.Handler) {
	p.AddHandler(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.private(w, r) {
			h.ServeHTTP(w, r)
		}
	}))
}

// effectiveVersion returns a version for /statusz.
func effectiveVersion(text string) compatibility.EffectiveVersion {
	v, err := version.ParseGeneric(text)
	if err != nil {
		v = version.MajorMinor(0, 0)
	}
	none := version.MajorMinor(0, 0)
	return compatibility.NewEffectiveVersion(v, false, none, none)
}

// observe records the outcome of a check in the metrics of /metrics/slis. endpoint is healthz, livez or readyz.
func observe(r *http.Request, endpoint, check string, err error) {
	status := slis.Success
	if err != nil {
		status = slis.Error
	}
	_ = slis.ObserveHealthcheck(r.Context(), check, endpoint, status) // it returns no error
}
