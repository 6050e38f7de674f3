package extender

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// tlsConfig returns the TLS configuration of an extender's connection; nil for one that is reached with Go's defaults.
// HTTPS that is enabled without a CA is not verified, as in kube-scheduler (makeTransport in
// pkg/scheduler/extender.go). Files are read once, when the client is made.
func tlsConfig(e configv1.Extender) (*tls.Config, error) {
	var given configv1.ExtenderTLSConfig
	if e.TLSConfig != nil {
		given = *e.TLSConfig
	}
	ca, err := dataOrFile(given.CAData, given.CAFile, "tlsConfig.caFile")
	if err != nil {
		return nil, err
	}
	// client-go refuses the same combination.
	if given.Insecure && len(ca) > 0 {
		return nil, errors.New("tlsConfig.insecure: true with a CA: want only one of them")
	}
	insecure := given.Insecure || e.EnableHTTPS && len(ca) == 0
	certificates, err := clientCertificate(given)
	if err != nil {
		return nil, err
	}
	// Nothing is configured: plain HTTP, or HTTPS by the system's authorities.
	if len(ca) == 0 && !insecure && len(certificates) == 0 && given.ServerName == "" {
		return nil, nil
	}
	out := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: given.ServerName, Certificates: certificates,
		InsecureSkipVerify: insecure, //nolint:gosec // the file asks for it, in upstream's words
	}
	if len(ca) > 0 {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("tlsConfig.caFile or caData: no certificate found: want PEM")
		}
	}
	return out, nil
}

// clientCertificate returns the certificate that the client shows; none if the configuration names none.
func clientCertificate(given configv1.ExtenderTLSConfig) ([]tls.Certificate, error) {
	cert, err := dataOrFile(given.CertData, given.CertFile, "tlsConfig.certFile")
	if err != nil {
		return nil, err
	}
	key, err := dataOrFile(given.KeyData, given.KeyFile, "tlsConfig.keyFile")
	switch {
	case err != nil:
		return nil, err
	case len(cert) == 0 && len(key) == 0:
		return nil, nil
	case len(cert) == 0 || len(key) == 0:
		return nil, errors.New("tlsConfig: only one of certificate and key: want both or neither")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tlsConfig.certFile and keyFile, or certData and keyData: %w", err)
	}
	return []tls.Certificate{pair}, nil
}

// dataOrFile returns data if there is any, else the content of the file, if one is named.
func dataOrFile(data []byte, file, field string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	read, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return read, nil
}
