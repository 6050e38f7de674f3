package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// clusterLoad is the work of the cluster's own programs for the contender, for the clients that created the pods, and
// for this program. The last two are the same for all contenders.
type clusterLoad struct {
	// ServerSeconds is processor time of kube-apiserver and its etcd.
	ServerSeconds float64 `json:"serverSeconds"`
	// Requests counts what kube-apiserver has answered about pods, events and disruption budgets,
	// by verb and resource.
	Requests map[string]int `json:"requests"`
}

// requestTotal is a sample of kube-apiserver's counter of requests.
var (
	requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total{(.*)} (\S+)$`)
	label        = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// load reads the counters as they are now.
func (g *ground) load(ctx context.Context) (clusterLoad, error) {
	out := clusterLoad{Requests: map[string]int{}}
	used, err := harness.CPUTime(g.Cluster.PIDs("kube-apiserver", "etcd")...)
	if err != nil {
		return out, err
	}
	out.ServerSeconds = used.Seconds()
	text, err := g.Cluster.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return out, fmt.Errorf("metrics of kube-apiserver: %w", err)
	}
	for _, sample := range requestTotal.FindAllStringSubmatch(string(text), -1) {
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(sample[1], -1) {
			labels[l[1]] = l[2]
		}
		count, err := strconv.ParseFloat(sample[2], 64)
		if err != nil {
			return out, fmt.Errorf("metrics of kube-apiserver: %q: %w", sample[0], err)
		}
		switch labels["resource"] {
		case "pods", "events", "poddisruptionbudgets":
			name := labels["verb"] + " " + labels["resource"]
			out.Requests[strings.TrimSuffix(name+"/"+labels["subresource"], "/")] += int(count)
		}
	}
	return out, nil
}

// since is the increase over an earlier reading.
func (l clusterLoad) since(before clusterLoad) clusterLoad {
	out := clusterLoad{ServerSeconds: l.ServerSeconds - before.ServerSeconds, Requests: map[string]int{}}
	for name, count := range l.Requests {
		if more := count - before.Requests[name]; more > 0 {
			out.Requests[name] = more
		}
	}
	return out
}
