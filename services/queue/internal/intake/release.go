package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/placement"
)

const (
	// oldestMinor is the first minor version of Kubernetes 1 that Berth runs on: the first with resource.k8s.io/v1.
	oldestMinor = 34
	// releaseEvery is how often a running queue asks for the version: watches outlive an upgrade of API servers.
	releaseEvery = time.Minute
)

// Release is the version of an API server. The zero value is one that does not tell.
type Release struct {
	// Version is what it calls itself, such as v1.36.3.
	Version string
	// minor is of Kubernetes 1, 0 if it cannot be told.
	minor int
}

// releaseOf reads an answer. A server that emulates an earlier version serves what that version does. Some vendors add
// a sign to the minor version.
func releaseOf(info *apiversion.Info) Release {
	r := Release{Version: info.GitVersion}
	major, minor := cmp.Or(info.EmulationMajor, info.Major), cmp.Or(info.EmulationMinor, info.Minor)
	if n, err := strconv.Atoi(strings.TrimRight(minor, "+")); err == nil && major == "1" {
		r.minor = n
	}
	return r
}

// check returns an error for a version that Berth does not run on.
func (r Release) check() error {
	if r.minor == 0 || r.minor >= oldestMinor {
		return nil
	}
	return fmt.Errorf("has version %s, want v1.%d or later", r.Version, oldestMinor)
}

// Later says of a version later than the rules what follows from that; it is empty for any other.
func (r Release) Later() string {
	if r.minor <= placement.RulesMinor {
		return ""
	}
	return fmt.Sprintf("the API server has version %s, and the rules are those of Kubernetes 1.%d: "+
		"fields of objects that came later are not seen", r.Version, placement.RulesMinor)
}

// tell says what the rules miss in the objects of this version: fields that an older server drops from what is
// created, and fields that only a later one knows.
func (r Release) tell(logger klog.Logger) {
	if off := offByDefault(r.minor); len(off) > 0 {
		logger.Info("The API server is of an older version, which has these features off by default: "+
			"what they are about is not in its objects, unless they are switched on",
			"version", r.Version, "features", strings.Join(off, ","))
	}
	if r.Later() != "" {
		logger.Info("The API server is of a later version than the rules: fields of objects that came later are not seen",
			"version", r.Version, "rules", fmt.Sprintf("1.%d", placement.RulesMinor))
	}
}

// since are the features that rules read fields of, with the minor version of Kubernetes 1 in which they
// came to be on by default. Source: pkg/features/kube_features.go of 1.36.3. Those that have been on since
// oldestMinor are left out.
var since = []struct {
	feature string
	minor   int
}{
	{"DRAConsumableCapacity", 36},
	{"DRADeviceBindingConditions", 36},
	{"DRADeviceTaints", 36},
	{"DRAExtendedResource", 36},
	{"DRAPartitionableDevices", 36},
	{"NodeDeclaredFeatures", 36},
}

// offByDefault are the features that a version of the API server does not have on by default, none if the
// version cannot be told.
func offByDefault(minor int) (off []string) {
	for _, f := range since {
		if minor != 0 && minor < f.minor {
			off = append(off, f.feature)
		}
	}
	return off
}

// Release is what the API server said last; the zero value before that, and if it does not tell.
func (c *Cluster) Release() Release {
	if r := c.release.Load(); r != nil {
		return *r
	}
	return Release{}
}

// ask asks for the version, once. A server that does not tell is not an error.
func (c *Cluster) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	body, err := c.client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		c.release.Store(&Release{})
		return nil
	}
	if err != nil {
		return err
	}
	var info apiversion.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return fmt.Errorf("the answer to /version cannot be read: %w", err)
	}
	r := releaseOf(&info)
	c.release.Store(&r)
	return nil
}

// tellRelease asks until there is an answer, and says what the rules miss. An error is that of ctx.
func (c *Cluster) tellRelease(ctx context.Context, logger klog.Logger) error {
	err := wait.PollUntilContextCancel(ctx, identifyEvery, true, func(ctx context.Context) (bool, error) {
		return c.ask(ctx) == nil, nil
	})
	if err == nil {
		c.Release().tell(logger)
	}
	return err
}

// followRelease asks again and again until ctx ends.
func (c *Cluster) followRelease(ctx context.Context, logger klog.Logger) {
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.again(ctx, logger)
	}
}

// again asks once more, and says what the rules miss if the answer is another one.
func (c *Cluster) again(ctx context.Context, logger klog.Logger) {
	before := c.Release()
	if err := c.ask(ctx); err != nil {
		return // watches say that the server is away
	}
	if now := c.Release(); now != before {
		logger.Info("The API server has another version", "version", now.Version, "before", before.Version)
		now.tell(logger)
	}
}
