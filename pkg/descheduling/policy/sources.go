package policy

import (
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// sources are the sources of utilisation that the policy configures, at most one provider of each.
type sources struct {
	resolver  *resolver
	providers []MetricsProvider
}

// configured reports whether a source has a provider.
func (s *sources) configured(source MetricsSource) bool {
	return slices.ContainsFunc(s.providers, func(o MetricsProvider) bool { return o.Source == source })
}

// read reads the providers; the older metricsCollector stands for KubernetesMetrics.
func (s *sources) read(in *document) []MetricsProvider {
	r := s.resolver
	at := field.NewPath("metricsProviders")
	for i := range in.MetricsProviders {
		p, here := &in.MetricsProviders[i], at.Index(i)
		if s.configured(p.Source) {
			r.Add(here.Child("source"), string(p.Source), fmt.Sprintf(
				"metric provider %q is already configured, each source can be configured only once", p.Source))
			continue
		}
		s.providers = append(s.providers, s.provider(p, here))
	}
	if in.MetricsCollector == nil || !in.MetricsCollector.Enabled {
		return s.providers
	}
	if s.configured(KubernetesMetrics) {
		r.Add(field.NewPath("metricsCollector", "enabled"), true,
			"it is not allowed to combine metrics provider when metrics collector is enabled")
		return s.providers
	}
	s.providers = append(s.providers, MetricsProvider{Source: KubernetesMetrics})
	return s.providers
}

// provider reads one provider. An unknown source is a warning, since a strategy that names it is refused on its
// own; for Prometheus a URL is required and the token's secret must be named completely.
func (s *sources) provider(in *metricsProvider, path *field.Path) MetricsProvider {
	r := s.resolver
	out := MetricsProvider{Source: in.Source}
	if in.Source != PrometheusMetrics {
		if in.Source != KubernetesMetrics {
			r.warn(path.Child("source"), fmt.Sprintf("no source is named %q", in.Source))
		}
		return out
	}
	at := path.Child("prometheus")
	if in.Prometheus == nil {
		r.Add(at, nil, "prometheus configuration is required when prometheus source is enabled")
		return out
	}
	out.URL = in.Prometheus.URL
	if out.URL == "" {
		r.Add(at.Child("url"), out.URL, "prometheus URL is required when prometheus is enabled")
	} else if _, err := url.Parse(out.URL); err != nil {
		r.Add(at.Child("url"), out.URL, fmt.Sprintf("error parsing prometheus URL: %v", err))
	}
	if in.Prometheus.AuthToken == nil {
		return out
	}
	secret, at := in.Prometheus.AuthToken.SecretReference, at.Child("authToken", "secretReference")
	switch {
	case secret == nil:
		r.Add(at, nil, "prometheus authToken secret is expected to be set when authToken field is")
	case secret.Name == "" || secret.Namespace == "":
		r.Add(at, strictyaml.Words(secret.Namespace+"/"+secret.Name),
			"prometheus authToken secret reference does not set both namespace and name")
	default:
		out.TokenSecret = &SecretName{Namespace: secret.Namespace, Name: secret.Name}
	}
	return out
}

// check warns about a strategy whose source of utilisation is not configured: it cannot run.
func (s *sources) check(p *Profile, path *field.Path) {
	for i, strategy := range p.Balance {
		low, ok := strategy.Args.(*LowUtilization)
		if !ok || low.Source == "" {
			continue
		}
		if !s.configured(low.Source) {
			s.resolver.warn(path.Child("plugins", "balance", "enabled").Index(i),
				fmt.Sprintf("metricsProviders has no %s, which metricsUtilization requires", low.Source))
		}
	}
}
