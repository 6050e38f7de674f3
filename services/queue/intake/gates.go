package intake

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/gates"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

const (
	// gatesEvery is how often a running queue reads the API server's feature gates: a server that restarts may have
	// others. A server of a large cluster has tens of megabytes of metrics, and the gates are among them.
	gatesEvery = 10 * time.Minute
	// gatesTimeout bounds one reading.
	gatesTimeout = time.Minute
	// longestMetric is longer than any line of metrics.
	longestMetric = 1 << 20
)

// Gates that show in objects or in what the server serves.
const (
	gateGroups     = "GenericWorkload"
	gateMapped     = "DRANodeAllocatableResources"
	gateTaintRules = "DRADeviceTaintRules"
)

// enabledLine matches the metric of a feature gate that is on. Source: component-base/metrics/prometheus/feature.
var enabledLine = regexp.MustCompile(`^kubernetes_feature_enabled\{(?:.*,)?name="([^"]+)".*\} 1$`)

// serverGates is what the queue knows about the feature gates of its API server. It is safe for concurrent use.
type serverGates struct {
	mu struct {
		sync.Mutex
		// listed are those that the server last listed as on; shown are those that objects have shown.
		listed, shown map[string]bool
		// logged are the lines about gates that the log has.
		logged map[string]bool
		// problem is why the server's list could not be read, as it was last logged.
		problem string
		// older has the kinds that the API server serves only in versions that the queue does not read; denied has the
		// served kinds that the queue's account may not list.
		older  olderKinds
		denied map[events.Kind]bool
	}
}

// Unfollowed returns the feature gates of the API server that Berth refuses or ignores, one line each, by name. It is
// what is known at the moment: from the server's own list, which takes seconds to read after the start, from the kinds
// that it serves, and from the objects of this process's rounds.
func (c *Cluster) Unfollowed() []string { return c.gates.lines() }

func (g *serverGates) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var lines []string
	for _, gate := range g.unfollowed() {
		lines = append(lines, gate.String())
	}
	return lines
}

// unfollowed returns the gates to report. The caller holds the lock.
func (g *serverGates) unfollowed() []gates.Gate {
	names := slices.Concat(slices.Collect(maps.Keys(g.mu.listed)), slices.Collect(maps.Keys(g.mu.shown)))
	list := gates.Unfollowed(names)
	if g.mu.older.taintRules {
		list = append(list, gates.Gate{
			Name: gateTaintRules, Treatment: gates.Ignored,
			Note: "the API server serves DeviceTaintRules only in a version earlier than " + taintRuleVersion +
				": they are not read, and devices that they taint are given to pods",
		})
	}
	if g.mu.older.groups {
		list = slices.DeleteFunc(list, func(gate gates.Gate) bool { return gate.Name == gateGroups })
		list = append(list, gates.Gate{
			Name: gateGroups, Treatment: gates.Ignored,
			Note: "the API server has the groups of Kubernetes 1.35: pods with spec.workloadRef are placed one by one",
		})
	}
	for kind, gate := range deniedGates {
		if g.mu.denied[kind] {
			list = append(slices.DeleteFunc(list, func(o gates.Gate) bool { return o.Name == gate.Name }), gate)
		}
	}
	slices.SortFunc(list, func(a, b gates.Gate) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// deniedGates has the feature gates to report for kinds that the queue's account may not list.
var deniedGates = map[events.Kind]gates.Gate{
	events.KindDeviceTaintRule: {
		Name: gateTaintRules, Treatment: gates.Ignored,
		Note: "the queue's account has no right to list " + taintRules +
			" (resource.k8s.io): they count as they were when they were last listed",
	},
	events.KindPodGroup: {
		Name: gateGroups, Treatment: gates.Ignored,
		Note: "the queue's account has no right to list podgroups (scheduling.k8s.io): the pods of new groups wait",
	},
}

// olderKinds reports which kinds of features that are off by default the server serves only in versions that are not
// read: rules for devices, and groups of pods.
type olderKinds struct{ taintRules, groups bool }

// log logs each gate that is not followed, once for each effect.
func (g *serverGates) log(logger klog.Logger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gate := range g.unfollowed() {
		if g.mu.logged[gate.String()] {
			continue
		}
		if g.mu.logged == nil {
			g.mu.logged = map[string]bool{}
		}
		g.mu.logged[gate.String()] = true
		logger.Info("API server has a feature that Berth does not follow",
			"featureGate", gate.Name, "treatment", gate.Treatment.String(), "effect", gate.Note)
	}
}

// list replaces the gates that the server lists, and logs it if the list could not be read before.
func (g *serverGates) list(enabled map[string]bool, logger klog.Logger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.listed == nil || g.mu.problem != "" {
		logger.Info("feature gates of the API server were read", "enabled", len(enabled))
	}
	g.mu.listed, g.mu.problem = enabled, ""
}

// failed logs why the server's list cannot be read, if that is new. What it listed before stays known.
func (g *serverGates) failed(err error, logger klog.Logger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.problem == err.Error() {
		return
	}
	g.mu.problem = err.Error()
	logger.Info("feature gates of the API server cannot be read from its metrics: "+
		"those that objects and served kinds do not show stay unknown", telemetry.KeyError, err.Error())
}

// show notes that a gate has shown itself, and reports whether that is new.
func (g *serverGates) show(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.shown[name] {
		return false
	}
	if g.mu.shown == nil {
		g.mu.shown = map[string]bool{}
	}
	g.mu.shown[name] = true
	return true
}

// serves notes what is served only in a version that is not read.
func (g *serverGates) serves(older olderKinds) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.older = older
}

// setDenied records whether the queue's account may not list a kind.
func (g *serverGates) setDenied(kind events.Kind, denied bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.denied == nil {
		g.mu.denied = map[events.Kind]bool{}
	}
	g.mu.denied[kind] = denied
}

// denied reports whether the queue's account may not list a kind.
func (g *serverGates) denied(kind events.Kind) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.denied[kind]
}

// notice looks for features that are not followed in an object. It is called for every object that is read, so it
// costs next to nothing for most.
func (g *serverGates) notice(o object, logger klog.Logger) {
	name := ""
	switch o := o.(type) {
	case *resourcev1.ResourceSlice:
		if slices.ContainsFunc(o.Spec.Devices, func(d resourcev1.Device) bool {
			return len(d.NodeAllocatableResourceMappings) > 0
		}) {
			name = gateMapped
		}
	}
	if name != "" && g.show(name) {
		g.log(logger)
	}
}

// followGates reads the API server's feature gates now and periodically, until ctx ends.
func (c *Cluster) followGates(ctx context.Context, logger klog.Logger) {
	tick := time.NewTicker(gatesEvery)
	defer tick.Stop()
	for {
		c.readGates(ctx, logger)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// readGates reads the feature gates that are on from the API server's metrics, once, and logs those that are not
// followed. A server that refuses is no error: its metrics need a right of their own.
func (c *Cluster) readGates(ctx context.Context, logger klog.Logger) {
	bounded, cancel := context.WithTimeout(ctx, gatesTimeout)
	defer cancel()
	enabled, err := c.enabledGates(bounded)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		c.gates.failed(err, logger)
	default:
		c.gates.list(enabled, logger)
	}
	c.gates.log(logger)
}

// enabledGates returns the feature gates that the API server's metrics list as on. The metrics are read as they
// arrive: in a large cluster they are too large to be kept.
func (c *Cluster) enabledGates(ctx context.Context) (map[string]bool, error) {
	request := c.client.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain")
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read /metrics: %w", err)
	}
	defer func() { _ = body.Close() }() // it was only read
	return scanGates(body)
}

// errNoGates means that metrics have none of feature gates.
var errNoGates = errors.New("/metrics has no kubernetes_feature_enabled")

// scanGates returns the feature gates that are on, by metrics in the text format.
func scanGates(metrics io.Reader) (map[string]bool, error) {
	enabled, found := map[string]bool{}, false
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, longestMetric)
	for lines.Scan() {
		line := lines.Bytes()
		if !bytes.HasPrefix(line, []byte("kubernetes_feature_enabled{")) {
			if found {
				break // metrics of a family are together
			}
			continue
		}
		found = true
		if m := enabledLine.FindSubmatch(line); m != nil {
			enabled[string(m[1])] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read /metrics: %w", err)
	}
	if !found {
		return nil, errNoGates
	}
	return enabled, nil
}
