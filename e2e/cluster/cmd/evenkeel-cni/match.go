package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A peer is one source or destination: an iptables match, and the pod behind it if it is one.
type peer struct {
	match string
	pod   *corev1.Pod
}

// peers resolves the peers of one rule; no peers mean everyone.
func (p *policies) peers(side, namespace string, wanted []netv1.NetworkPolicyPeer, pods []*corev1.Pod) []peer {
	if len(wanted) == 0 {
		return []peer{{}}
	}
	var found []peer
	for _, want := range wanted {
		if block := want.IPBlock; block != nil {
			// A block with exceptions allows nothing here: better too strict than too open.
			if len(block.Except) == 0 && !strings.Contains(block.CIDR, ":") {
				found = append(found, peer{match: side + " " + block.CIDR})
			}
			continue
		}
		for _, pod := range pods {
			if live(pod) && p.isPeer(want, namespace, pod) {
				found = append(found, peer{side + " " + pod.Status.PodIP + "/32", pod})
			}
		}
	}
	return found
}

func (p *policies) isPeer(want netv1.NetworkPolicyPeer, namespace string, pod *corev1.Pod) bool {
	if want.NamespaceSelector == nil {
		if pod.Namespace != namespace {
			return false
		}
	} else {
		found, err := p.namespaces.Get(pod.Namespace)
		if err != nil || !selects(want.NamespaceSelector, found.Labels) {
			return false
		}
	}
	return want.PodSelector == nil || selects(want.PodSelector, pod.Labels)
}

// withPorts combines each peer with each port. Named ports are those of target
// (ingress) or, where target is nil, of the peer (egress).
func withPorts(peers []peer, ports []netv1.NetworkPolicyPort, target *corev1.Pod) []string {
	var matches []string
	for _, peer := range peers {
		if len(ports) == 0 {
			matches = append(matches, peer.match)
		}
		owner := target
		if owner == nil {
			owner = peer.pod
		}
		for _, port := range ports {
			for _, match := range portMatches(port, owner) {
				matches = append(matches, strings.TrimSpace(peer.match+" "+match))
			}
		}
	}
	return matches
}

func portMatches(port netv1.NetworkPolicyPort, owner *corev1.Pod) []string {
	protocol := "tcp"
	if port.Protocol != nil {
		protocol = strings.ToLower(string(*port.Protocol))
	}
	switch {
	case port.Port == nil:
		return []string{"-p " + protocol}
	case port.Port.Type == intstr.Int && port.EndPort != nil:
		return []string{fmt.Sprintf("-p %s --dport %d:%d", protocol, port.Port.IntVal, *port.EndPort)}
	case port.Port.Type == intstr.Int:
		return []string{fmt.Sprintf("-p %s --dport %d", protocol, port.Port.IntVal)}
	case owner == nil:
		return nil
	}
	var matches []string
	for _, container := range owner.Spec.Containers {
		for _, named := range container.Ports {
			if named.Name == port.Port.StrVal && strings.EqualFold(string(named.Protocol), protocol) {
				matches = append(matches, fmt.Sprintf("-p %s --dport %d", protocol, named.ContainerPort))
			}
		}
	}
	return matches
}

func live(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && !ended
}

func selects(selector *metav1.LabelSelector, found map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(found))
}

func covers(policy *netv1.NetworkPolicy, direction netv1.PolicyType) bool {
	if len(policy.Spec.PolicyTypes) == 0 {
		return direction == netv1.PolicyTypeIngress || len(policy.Spec.Egress) > 0
	}
	for _, listed := range policy.Spec.PolicyTypes {
		if listed == direction {
			return true
		}
	}
	return false
}
