package dev.evenkeel.partitioner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SettingsTest {
    @Test
    void hasDefaults() {
        Settings settings = new Settings(Map.of());
        assertEquals(Set.of(), settings.topics);
        assertTrue(settings.phase >= 0 && settings.phase < 1);
        assertEquals(5_000, settings.heartbeatMs);
        assertEquals(16_384, settings.batchBytes);
        assertEquals("evenkeel", settings.clientId);
    }

    @Test
    void readsTextsAndValues() {
        Settings settings = new Settings(Map.of(
                "evenkeel.topics", " a, b,,", "evenkeel.phase", 0.5, "evenkeel.heartbeat.ms", "250",
                "batch.size", 1000, "client.id", "me", "partitioner.ignore.keys", "true"));
        assertEquals(Set.of("a", "b"), settings.topics);
        assertEquals(0.5, settings.phase);
        assertEquals(250, settings.heartbeatMs);
        assertEquals(1000, settings.batchBytes);
        assertEquals("me", settings.clientId);
        assertTrue(settings.ignoreKeys);
        assertEquals(Set.of("a"), new Settings(Map.of("evenkeel.topics", List.of("a"))).topics);
    }

    @Test
    void takesAddressesAndSecurityForItsOwnClients() {
        Map<String, Object> own = new Settings(Map.of(
                        "bootstrap.servers", "h:1", "sasl.jaas.config", "x", "security.protocol", "SSL",
                        "ssl.truststore.type", "PEM", "transactional.id", "t", "acks", "all", "client.id", "me"))
                .clientConfig();
        assertEquals(
                Set.of("bootstrap.servers", "sasl.jaas.config", "security.protocol", "ssl.truststore.type"),
                own.keySet());
    }

    @ParameterizedTest
    @CsvSource({"phase,1.5", "phase,-1", "phase,x", "phase,NaN", "heartbeat.ms,-1", "message.bytes,x", "unknown,1"})
    void refusesWhatItDoesNotUnderstand(String key, String value) {
        ConfigException error =
                assertThrows(ConfigException.class, () -> new Settings(Map.of("evenkeel." + key, value)));
        assertTrue(error.getMessage().contains("evenkeel." + key), error.getMessage());
    }
}
