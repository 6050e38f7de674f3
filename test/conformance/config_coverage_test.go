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

// configRule is one rule of upstream's, told by field, kind and words of its mistakes.
type configRule struct {
	name  string
	kind  field.ErrorType
	path  *regexp.Regexp
	words string
}

func rule(name string, kind field.ErrorType, path, words string) configRule {
	return configRule{name, kind, regexp.MustCompile(path), words}
}

const (
	invalid      = field.ErrorTypeInvalid
	required     = field.ErrorTypeRequired
	duplicate    = field.ErrorTypeDuplicate
	notSupported = field.ErrorTypeNotSupported
	forbidden    = field.ErrorTypeForbidden
)

// configRules are those of ValidateKubeSchedulerConfiguration and of building the frameworks
// in the order of upstream's code. Left out is what no file can break: defaults fill in
// profiles, the leader election's names and the scoring strategy, the decoder sees to it
// that arguments have the right type, and no gate makes DynamicResourcesArgs forbidden.
var configRules = []configRule{
	rule("clientConnection.burst", invalid, `^clientConnection\.burst$`, ""),
	rule("leaderElection.leaseDuration", invalid, `^leaderElection\.leaseDuration$`, "greater than zero"),
	rule("leaderElection.renewDeadline", invalid, `^leaderElection\.renewDeadline$`, ""),
	rule("leaderElection.retryPeriod", invalid, `^leaderElection\.retryPeriod$`, ""),
	rule("leaderElection: lease over deadline", invalid, `^leaderElection\.leaseDuration$`, "RenewDeadline"),
	rule("leaderElection.resourceLock", invalid, `^leaderElection\.resourceLock$`, ""),
	rule("parallelism", invalid, `^parallelism$`, ""),
	rule("schedulerName missing", required, `schedulerName$`, ""),
	rule("schedulerName twice", duplicate, `schedulerName$`, ""),
	rule("percentageOfNodesToScore", invalid, `^percentageOfNodesToScore$`, ""),
	rule("percentageOfNodesToScore of a profile", invalid, `\]\.percentageOfNodesToScore$`, ""),
	rule("a removed plugin at a point", invalid, `plugins\.[a-zA-Z]+\.enabled\[\d+\]$`, "was invalid in version"),
	rule("pluginConfig twice", duplicate, `pluginConfig\[\d+\]$`, ""),
	rule("pluginConfig of a removed plugin", invalid, `pluginConfig\[\d+\]$`, "was invalid in version"),
	rule("several queueSort plugins", invalid, `queueSort\.Enabled$`, ""),
	rule("queueSort differs", invalid, `plugins\.queueSort$`, ""),
	rule("queueSort arguments differ", invalid, `pluginConfig\.args$`, ""),
	rule("podInitialBackoffSeconds", invalid, `^podInitialBackoffSeconds$`, ""),
	rule("podMaxBackoffSeconds", invalid, `^podMaxBackoffSeconds$`, ""),
	rule("extender weight", invalid, `^extenders\[\d+\]\.weight$`, ""),
	rule("extender resource: qualified name", invalid, `managedResources\[\d+\]\.name$`, "name part"),
	rule("extender resource: extended", invalid, `managedResources\[\d+\]\.name$`, "extended resource name"),
	rule("extender resource: twice", invalid, `managedResources\[\d+\]\.name$`, "duplicate"),
	rule("several binding extenders", invalid, `^extenders$`, ""),

	rule("DefaultPreemption: percentage", invalid, `minCandidateNodesPercentage$`, "range"),
	rule("DefaultPreemption: absolute", invalid, `minCandidateNodesAbsolute$`, "range"),
	rule("DefaultPreemption: none (percentage)", invalid, `minCandidateNodesPercentage$`, "cannot be zero"),
	rule("DefaultPreemption: none (absolute)", invalid, `minCandidateNodesAbsolute$`, "cannot be zero"),
	rule("InterPodAffinity: weight", invalid, `hardPodAffinityWeight$`, ""),
	rule("PodTopologySpread: defaultingType", notSupported, `defaultingType$`, ""),
	rule("PodTopologySpread: System with constraints", invalid, `defaultingType$`, ""),
	rule("PodTopologySpread: maxSkew", invalid, `maxSkew$`, ""),
	rule("PodTopologySpread: topologyKey missing", required, `topologyKey$`, ""),
	rule("PodTopologySpread: topologyKey", invalid, `topologyKey$`, ""),
	rule("PodTopologySpread: whenUnsatisfiable missing", required, `whenUnsatisfiable$`, ""),
	rule("PodTopologySpread: whenUnsatisfiable", notSupported, `whenUnsatisfiable$`, ""),
	rule("PodTopologySpread: labelSelector", forbidden, `labelSelector$`, ""),
	rule("PodTopologySpread: twice", duplicate, `defaultConstraints\[\d+\]$`, ""),
	rule("shape missing", required, `shape$`, ""),
	rule("shape: order", invalid, `utilization$`, "sorted"),
	rule("shape: utilization", invalid, `utilization$`, "range"),
	rule("shape: score", invalid, `score$`, ""),
	rule("NodeResourcesFit: weight", invalid, `scoringStrategy\.resources\[\d+\]\.weight$`, ""),
	rule("NodeResourcesFit: ignoredResources", invalid, `ignoredResources\[\d+\]$`, ""),
	rule("NodeResourcesFit: ignoredResourceGroups with slash", invalid, `ignoredResourceGroups\[\d+\]$`, "'/'"),
	rule("NodeResourcesFit: ignoredResourceGroups", invalid, `ignoredResourceGroups\[\d+\]$`, "name part"),
	rule("NodeResourcesFit: type", notSupported, `scoringStrategy\.type$`, ""),
	rule("NodeResourcesFit: ratio missing", required, `requestedToCapacityRatio$`, ""),
	rule("NodeResourcesFit: ratio unwanted", forbidden, `requestedToCapacityRatio$`, ""),
	rule("NodeResourcesBalancedAllocation: twice", duplicate, `args\.resources\[\d+\]\.name$`, ""),
	rule("NodeResourcesBalancedAllocation: weight", invalid, `args\.resources\[\d+\]\.weight$`, ""),
	rule("NodeAffinity: required", invalid, `addedAffinity\.required`, ""),
	rule("NodeAffinity: required, operator", notSupported, `addedAffinity\.required.*operator$`, ""),
	rule("NodeAffinity: preferred", invalid, `addedAffinity\.preferred`, ""),
	rule("VolumeBinding: timeout", invalid, `bindTimeoutSeconds$`, ""),
	rule("VolumeBinding: shape", invalid, `args\.shape$`, ""),
	rule("DynamicResources: filterTimeout", invalid, `filterTimeout$`, ""),
	rule("DynamicResources: bindingTimeout", invalid, `bindingTimeout$`, ""),

	rule("an unknown plugin at a point", notSupported, `plugins\.(pre|fi|sc|re|bi|po|qu|pl|pe)\w+\.enabled`, "not exist"),
	rule("an unknown plugin at all points", notSupported, `plugins\.multiPoint\.enabled\[\d+\]$`, "not exist"),
	rule("a removed plugin at all points", invalid, `plugins\.multiPoint\.enabled\[\d+\]$`, "not exist"),
	rule("a plugin out of place", invalid, `enabled\[\d+\]$`, "does not extend"),
	rule("a plugin twice at a point", duplicate, `plugins\.(pre|fi|sc|re|bi|po|qu|pl|pe)\w+\.enabled`, "already"),
	rule("a plugin twice at all points", duplicate, `plugins\.multiPoint\.enabled\[\d+\]$`, "already"),
	rule("no single queueSort plugin", required, `plugins\.queueSort$`, ""),
	rule("no bind plugin", required, `plugins\.bind$`, ""),
}

// decodingRules are told by what the decoder says.
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

// count takes in one file: what upstream made of it and whether we accept it.
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

// lopsided names what the run did not cover.
func (c *configTally) lopsided() []string {
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
