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
	// releaseEvery is how often a running queue requests the version: watches outlive an upgrade of API servers.
	releaseEvery = time.Minute
)

// Release is the version of an API server. The zero value stands for a server that does not report its version.
type Release struct {
	// Version is the server's own version string, such as v1.36.3.
	Version string
	// minor is the minor version of Kubernetes 1, 0 if it is not known.
	minor int
}

// releaseOf parses an answer. A server that emulates an earlier version serves what that version serves. Some vendors
// append a plus sign to the minor version.
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

// Later describes what follows if the version is later than the rules; it is empty otherwise.
func (r Release) Later() string {
	if r.minor <= placement.RulesMinor {
		return ""
	}
	return fmt.Sprintf("the API server has version %s, but the rules are those of Kubernetes 1.%d: "+
		"fields added since are ignored", r.Version, placement.RulesMinor)
}

// logGaps logs what the rules miss in the objects of this version: fields that an older server drops on creation, and
// fields that only a later server knows.
func (r Release) logGaps(logger klog.Logger) {
	if off := offByDefault(r.minor); len(off) > 0 {
		logger.Info("API server is older than the rules and has these features off by default: "+
			"their fields are absent from objects unless the features are enabled",
			"version", r.Version, "features", strings.Join(off, ","))
	}
	if r.Later() != "" {
		logger.Info("API server is newer than the rules: fields added since are ignored",
			"version", r.Version, "rules", fmt.Sprintf("1.%d", placement.RulesMinor))
	}
}

// enabledSince lists the features whose fields rules read, with the minor version of Kubernetes 1 in which they became
// enabled by default. Source: pkg/features/kube_features.go of 1.36.3. Features that have been on since oldestMinor
// are left out.
var enabledSince = []struct {
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

// offByDefault returns the features that a version of the API server does not enable by default; none if the version
// is not known.
func offByDefault(minor int) (off []string) {
	for _, f := range enabledSince {
		if minor != 0 && minor < f.minor {
			off = append(off, f.feature)
		}
	}
	return off
}

// Release returns the version that the API server last reported; the zero value before that, and if it reports none.
func (c *Cluster) Release() Release {
	if r := c.release.Load(); r != nil {
		return *r
	}
	return Release{}
}

// requestRelease requests the version, once, and records the answer. A server that does not report it is not an error.
func (c *Cluster) requestRelease(ctx context.Context) error {
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
		return fmt.Errorf("response to /version cannot be decoded: %w", err)
	}
	r := releaseOf(&info)
	c.release.Store(&r)
	return nil
}

// awaitRelease requests the version until there is an answer, and logs what the rules miss. An error is that of ctx.
func (c *Cluster) awaitRelease(ctx context.Context, logger klog.Logger) error {
	err := wait.PollUntilContextCancel(ctx, identifyEvery, true, func(ctx context.Context) (bool, error) {
		return c.requestRelease(ctx) == nil, nil
	})
	if err == nil {
		c.Release().logGaps(logger)
	}
	return err
}

// followRelease requests the version periodically until ctx ends, so that the log shows an upgrade of the API server
// that brings fields which the rules do not know.
func (c *Cluster) followRelease(ctx context.Context, logger klog.Logger) {
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.refreshRelease(ctx, logger)
	}
}

// refreshRelease requests the version once more, and logs what the rules miss if it has changed.
func (c *Cluster) refreshRelease(ctx context.Context, logger klog.Logger) {
	before := c.Release()
	if err := c.requestRelease(ctx); err != nil {
		return // the watches report that the server is unreachable
	}
	if now := c.Release(); now != before {
		logger.Info("API server version changed", "version", now.Version, "before", before.Version)
		now.logGaps(logger)
	}
}
