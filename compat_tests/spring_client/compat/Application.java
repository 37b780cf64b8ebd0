package compat;

import java.util.HashMap;
import java.util.Map;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/** A Spring Boot application as a team would write it; each verb starts one with the beans it needs, and closes it. */
@Configuration
@EnableAutoConfiguration
public class Application {
    /** A running application whose beans may ask for the verb's {@code Options} and for whatever else is given. */
    static ConfigurableApplicationContext start(Options o, Map<String, Object> properties, Map<String, Object> singletons,
        Class<?>... beans) {
        Map<String, Object> all = new HashMap<>(properties);
        all.put("rocketmq.name-server", o.text("ns"));
        all.put("compat.topic", o.text("topic"));
        all.put("compat.group", o.text("group", "unused"));
        all.put("compat.expression", o.text("sql", o.text("tags", "*")));
        all.put("compat.namespace", o.text("namespace", ""));
        for (String part : new String[] {"producer", "consumer", "pull-consumer"}) {
            all.put("rocketmq." + part + ".access-key", o.text("access_key", ""));
            all.put("rocketmq." + part + ".secret-key", o.text("secret_key", ""));
            all.put("rocketmq." + part + ".tls-enable", o.has("tls"));
        }
        all.put("spring.main.banner-mode", "off");
        all.put("logging.level.root", "ERROR");
        return new SpringApplicationBuilder(Application.class).sources(beans).web(WebApplicationType.NONE).properties(all)
            .registerShutdownHook(false)
            .initializers(context -> {
                context.getBeanFactory().registerSingleton("options", o);
                singletons.forEach(context.getBeanFactory()::registerSingleton);
            }).run();
    }

    /** What an application that sends says about itself. */
    static Map<String, Object> producing(Options o, String group) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("rocketmq.producer.group", group);
        properties.put("rocketmq.producer.send-message-timeout", 10_000);
        if (o.has("namespace")) {
            properties.put("rocketmq.producer.namespace", o.text("namespace"));
        }
        if (o.has("trace")) {
            properties.put("rocketmq.producer.enable-msg-trace", true);
        }
        return properties;
    }
}
