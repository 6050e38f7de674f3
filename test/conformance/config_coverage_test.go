package conformance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// minAccepted is the share of files, in percent, that both sides must accept: in a file
// that is refused nothing but the mistakes is compared.
const minAccepted = 30

// configRule is one of upstream's rules, identified by field, kind and words of its mistakes.
type configRule struct {
	name  string
	kind  field.ErrorType
	path  *regexp.Regexp
	words string
}

func upstreams(name string, kind field.ErrorType, path, words string) configRule {
	return configRule{name, kind, regexp.MustCompile(path), words}
}

const (
	invalid      = field.ErrorTypeInvalid
	required     = field.ErrorTypeRequired
	duplicate    = field.ErrorTypeDuplicate
	notSupported = field.ErrorTypeNotSupported
	forbidden    = field.ErrorTypeForbidden
)

// configRules are those of ValidateKubeSchedulerConfiguration and of building the frameworks in the order of
// upstream's code. Rules that no file can break are left out: defaults fill in profiles, the leader election's names
// and the scoring strategy, the decoder ensures that arguments have the right type, and no gate makes
// DynamicResourcesArgs forbidden.
var configRules = []configRule{
	upstreams("clientConnection.burst", invalid, `^clientConnection\.burst$`, ""),
	upstreams("leaderElection.leaseDuration", invalid, `^leaderElection\.leaseDuration$`, "greater than zero"),
	upstreams("leaderElection.renewDeadline", invalid, `^leaderElection\.renewDeadline$`, ""),
	upstreams("leaderElection.retryPeriod", invalid, `^leaderElection\.retryPeriod$`, ""),
	upstreams("leaderElection: lease over deadline", invalid, `^leaderElection\.leaseDuration$`, "RenewDeadline"),
	upstreams("leaderElection.resourceLock", invalid, `^leaderElection\.resourceLock$`, ""),
	upstreams("parallelism", invalid, `^parallelism$`, ""),
	upstreams("schedulerName missing", required, `schedulerName$`, ""),
	upstreams("schedulerName twice", duplicate, `schedulerName$`, ""),
	upstreams("percentageOfNodesToScore", invalid, `^percentageOfNodesToScore$`, ""),
	upstreams("percentageOfNodesToScore of a profile", invalid, `\]\.percentageOfNodesToScore$`, ""),
	upstreams("a removed plugin at a point", invalid, `plugins\.[a-zA-Z]+\.enabled\[\d+\]$`, "was invalid in version"),
	upstreams("pluginConfig twice", duplicate, `pluginConfig\[\d+\]$`, ""),
	upstreams("pluginConfig of a removed plugin", invalid, `pluginConfig\[\d+\]$`, "was invalid in version"),
	upstreams("several queueSort plugins", invalid, `queueSort\.Enabled$`, ""),
	upstreams("queueSort differs", invalid, `plugins\.queueSort$`, ""),
	upstreams("queueSort arguments differ", invalid, `pluginConfig\.args$`, ""),
	upstreams("podInitialBackoffSeconds", invalid, `^podInitialBackoffSeconds$`, ""),
	upstreams("podMaxBackoffSeconds", invalid, `^podMaxBackoffSeconds$`, ""),
	upstreams("extender weight", invalid, `^extenders\[\d+\]\.weight$`, ""),
	upstreams("extender resource: qualified name", invalid, `managedResources\[\d+\]\.name$`, "name part"),
	upstreams("extender resource: extended", invalid, `managedResources\[\d+\]\.name$`, "extended resource name"),
	upstreams("extender resource: twice", invalid, `managedResources\[\d+\]\.name$`, "duplicate"),
	upstreams("several binding extenders", invalid, `^extenders$`, ""),

	upstreams("DefaultPreemption: percentage", invalid, `minCandidateNodesPercentage$`, "range"),
	upstreams("DefaultPreemption: absolute", invalid, `minCandidateNodesAbsolute$`, "range"),
	upstreams("DefaultPreemption: none (percentage)", invalid, `minCandidateNodesPercentage$`, "cannot be zero"),
	upstreams("DefaultPreemption: none (absolute)", invalid, `minCandidateNodesAbsolute$`, "cannot be zero"),
	upstreams("InterPodAffinity: weight", invalid, `hardPodAffinityWeight$`, ""),
	upstreams("PodTopologySpread: defaultingType", notSupported, `defaultingType$`, ""),
	upstreams("PodTopologySpread: System with constraints", invalid, `defaultingType$`, ""),
	upstreams("PodTopologySpread: maxSkew", invalid, `maxSkew$`, ""),
	upstreams("PodTopologySpread: topologyKey missing", required, `topologyKey$`, ""),
	upstreams("PodTopologySpread: topologyKey", invalid, `topologyKey$`, ""),
	upstreams("PodTopologySpread: whenUnsatisfiable missing", required, `whenUnsatisfiable$`, ""),
	upstreams("PodTopologySpread: whenUnsatisfiable", notSupported, `whenUnsatisfiable$`, ""),
	upstreams("PodTopologySpread: labelSelector", forbidden, `labelSelector$`, ""),
	upstreams("PodTopologySpread: twice", duplicate, `defaultConstraints\[\d+\]$`, ""),
	upstreams("shape missing", required, `shape$`, ""),
	upstreams("shape: order", invalid, `utilization$`, "sorted"),
	upstreams("shape: utilization", invalid, `utilization$`, "range"),
	upstreams("shape: score", invalid, `score$`, ""),
	upstreams("NodeResourcesFit: weight", invalid, `scoringStrategy\.resources\[\d+\]\.weight$`, ""),
	upstreams("NodeResourcesFit: ignoredResources", invalid, `ignoredResources\[\d+\]$`, ""),
	upstreams("NodeResourcesFit: ignoredResourceGroups with slash", invalid, `ignoredResourceGroups\[\d+\]$`, "'/'"),
	upstreams("NodeResourcesFit: ignoredResourceGroups", invalid, `ignoredResourceGroups\[\d+\]$`, "name part"),
	upstreams("NodeResourcesFit: type", notSupported, `scoringStrategy\.type$`, ""),
	upstreams("NodeResourcesFit: ratio missing", required, `requestedToCapacityRatio$`, ""),
	upstreams("NodeResourcesFit: ratio unwanted", forbidden, `requestedToCapacityRatio$`, ""),
	upstreams("NodeResourcesBalancedAllocation: twice", duplicate, `args\.resources\[\d+\]\.name$`, ""),
	upstreams("NodeResourcesBalancedAllocation: weight", invalid, `args\.resources\[\d+\]\.weight$`, ""),
	upstreams("NodeAffinity: required", invalid, `addedAffinity\.required`, ""),
	upstreams("NodeAffinity: required, operator", notSupported, `addedAffinity\.required.*operator$`, ""),
	upstreams("NodeAffinity: preferred", invalid, `addedAffinity\.preferred`, ""),
	upstreams("VolumeBinding: timeout", invalid, `bindTimeoutSeconds$`, ""),
	upstreams("VolumeBinding: shape", invalid, `args\.shape$`, ""),
	upstreams("DynamicResources: filterTimeout", invalid, `filterTimeout$`, ""),
	upstreams("DynamicResources: bindingTimeout", invalid, `bindingTimeout$`, ""),

	upstreams("an unknown plugin at a point", notSupported, `plugins\.(pre|fi|sc|re|bi|po|qu|pl|pe)\w+\.enabled`,
		"not exist"),
	upstreams("an unknown plugin at all points", notSupported, `plugins\.multiPoint\.enabled\[\d+\]$`, "not exist"),
	upstreams("a removed plugin at all points", invalid, `plugins\.multiPoint\.enabled\[\d+\]$`, "not exist"),
	upstreams("a plugin out of place", invalid, `enabled\[\d+\]$`, "does not extend"),
	upstreams("a plugin twice at a point", duplicate, `plugins\.(pre|fi|sc|re|bi|po|qu|pl|pe)\w+\.enabled`, "already"),
	upstreams("a plugin twice at all points", duplicate, `plugins\.multiPoint\.enabled\[\d+\]$`, "already"),
	upstreams("no single queueSort plugin", required, `plugins\.queueSort$`, ""),
	upstreams("no bind plugin", required, `plugins\.bind$`, ""),
}

// decodingRules are identified by the decoder's messages.
var decodingRules = map[string]*regexp.Regexp{
	"decoding: unknown field":              regexp.MustCompile(`^strict decoding error: unknown field`),
	"decoding: unknown field in arguments": regexp.MustCompile(`decoding args for plugin \w+: strict decoding error`),
	"decoding: wrong type":                 regexp.MustCompile(`^json: cannot unmarshal|: json: cannot unmarshal`),
	"decoding: wrong type in arguments":    regexp.MustCompile(`decoding args for plugin \w+: json: cannot unmarshal`),
	"decoding: a field twice":              regexp.MustCompile(`already set in map`),
	"decoding: another version or kind":    regexp.MustCompile(`no kind "\w+" is registered for version`),
	"decoding: arguments of another kind":  regexp.MustCompile(`were not of type`),
	"decoding: arguments of no known kind": regexp.MustCompile(`decoding args for plugin \w+: no kind`),
}

// configTally counts what the files of a run were about.
type configTally struct {
	total, accepted, refusedByBoth int
	rules                          map[string]int
	exceptions                     map[configException]int
}

func newConfigTally() *configTally {
	return &configTally{rules: map[string]int{}, exceptions: map[configException]int{}}
}

// count adds one file: upstream's verdict and whether we accept it.
func (c *configTally) count(v verdict, accepted bool) {
	c.total++
	switch {
	case v.startErr == nil && accepted:
		c.accepted++
	case v.startErr != nil && !accepted:
		c.refusedByBoth++
	}
	hit := map[string]bool{}
	if v.undecodable != nil {
		for name, words := range decodingRules {
			hit[name] = words.MatchString(v.undecodable.Error())
		}
	}
	for _, f := range v.findings {
		for _, r := range configRules {
			if f.Kind == r.kind && r.path.MatchString(f.Field) && strings.Contains(f.message, r.words) {
				hit[r.name] = true
			}
		}
	}
	for name, yes := range hit {
		if yes {
			c.rules[name]++
		}
	}
}

// uncovered names what the run did not cover.
func (c *configTally) uncovered() []string {
	var missing []string
	if c.accepted*100 < minAccepted*c.total {
		missing = append(missing, fmt.Sprintf("%d of %d files accepted, want %d %%", c.accepted, c.total, minAccepted))
	}
	for _, r := range configRules {
		if c.rules[r.name] == 0 {
			missing = append(missing, r.name)
		}
	}
	for name := range decodingRules {
		if c.rules[name] == 0 {
			missing = append(missing, name)
		}
	}
	for _, e := range configExceptions {
		if c.exceptions[e] == 0 {
			missing = append(missing, "exception "+string(e))
		}
	}
	return missing
}

// String is the coverage table.
func (c *configTally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d files: %d accepted by both, %d refused by both, %d refused by us alone\n",
		c.total, c.accepted, c.refusedByBoth, c.total-c.accepted-c.refusedByBoth)
	for _, r := range configRules {
		fmt.Fprintf(&b, "%6d  %s\n", c.rules[r.name], r.name)
	}
	for _, name := range slices.Sorted(maps.Keys(decodingRules)) {
		fmt.Fprintf(&b, "%6d  %s\n", c.rules[name], name)
	}
	for _, e := range configExceptions {
		fmt.Fprintf(&b, "%6d  exception: %s\n", c.exceptions[e], e)
	}
	return b.String()
}
