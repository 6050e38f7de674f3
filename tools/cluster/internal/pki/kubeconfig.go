package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the cluster, user and context in every kubeconfig written.
const contextName = "berth-local"

// WriteKubeconfig writes a kubeconfig that carries its credentials inside, so
// that the file can be copied away from the cluster's directory.
func (a *Authority) WriteKubeconfig(path, server string, client Pair) error {
	ca, err := os.ReadFile(a.CertFile)
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(client.CertFile)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(client.KeyFile)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
