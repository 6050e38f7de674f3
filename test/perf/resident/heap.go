package resident

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Part is one part of a program, and its live objects.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Rest is the name of the part that all other parts leave over.
const Rest = "rest"

// owner is a part of Berth's process, and the prefixes of its functions' names.
type owner struct {
	name     string
	prefixes []string
}

func (o owner) has(function string) bool {
	return slices.ContainsFunc(o.prefixes, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// owners are the parts of Berth's process in the order of reports. What a library
// allocates counts for the part that called it, which is the innermost function of the stack that belongs to a part:
// the HTTP/2 client for Kubernetes, the embedded etcd's bbolt for etcd, a clone of bytes for the caller.
var owners = []owner{
	{"embedded NATS", []string{"github.com/nats-io/nats-server/"}},
	{"embedded etcd", []string{"go.etcd.io/etcd/server/", "go.etcd.io/bbolt", "go.etcd.io/raft/"}},
	{"state", []string{berth + "pkg/state"}},
	{"ledger", []string{berth + "pkg/ledger", "go.etcd.io/etcd/client/"}},
	{"log's client", []string{berth + "pkg/events", "github.com/nats-io/nats.go"}},
	{"placement", []string{berth + "pkg/placement"}},
	{"queue", []string{berth + "services/queue"}},
	{"scheduler", []string{berth + "services/scheduler"}},
	{"binder", []string{berth + "services/binder"}},
	{"descheduler", []string{berth + "services/descheduler", berth + "pkg/descheduling"}},
	{"Kubernetes' client", []string{"k8s.io/client-go/"}},
}

const (
	berth = "github.com/berth-scheduler/berth/"
	// liveBytes is the type of a heap profile's samples that counts them.
	liveBytes = "inuse_space"
)

// Heap collects the garbage of the process that serves /debug/pprof at this address, and returns its live objects by
// part, the rest last.
func Heap(ctx context.Context, address string) ([]Part, error) {
	url := "http://" + address + "/debug/pprof/heap?gc=1"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	heap, err := profile.ParseData(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return byPart(heap)
}

// byPart divides the live objects of a heap profile.
func byPart(heap *profile.Profile) ([]Part, error) {
	at := -1
	for i, kind := range heap.SampleType {
		if kind.Type == liveBytes {
			at = i
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("the heap profile has no samples of %s", liveBytes)
	}
	parts := make([]Part, len(owners)+1)
	for i := range owners {
		parts[i].Name = owners[i].name
	}
	parts[len(owners)].Name = Rest
	for _, s := range heap.Sample {
		parts[ownerOf(s)].Bytes += s.Value[at]
	}
	return parts, nil
}

// ownerOf is the part that the innermost function of a stack with an owner belongs to.
func ownerOf(s *profile.Sample) int {
	for _, location := range s.Location { // the innermost first
		for _, line := range location.Line {
			i := slices.IndexFunc(owners, func(o owner) bool { return o.has(line.Function.Name) })
			if i >= 0 {
				return i
			}
		}
	}
	return len(owners)
}
