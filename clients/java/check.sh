#!/bin/sh
# Builds, lints and tests the client, makes its jar in build/, installs it, and pushes and takes one job from an empty project.
# TARRY_URL is the address of the server. MVN may hold options: MVN='mvn -o -q'.
set -eu
cd "$(dirname "$0")"
: "${TARRY_URL:?where is the server? give TARRY_URL=http://127.0.0.1:8279}"
export TARRY_URL
mvn=${MVN:-mvn -q -B}

$mvn install # javac -Xlint:all -Werror, the tests, the jar, and into the local repository
version=$(sed -n 's|^  <version>\(.*\)</version>|\1|p' pom.xml)
mkdir -p build
cp "target/tarry-client-$version.jar" build/

project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
mkdir -p "$project/src/main/java"
cat > "$project/pom.xml" <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>shop</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>11</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>io.tarry</groupId>
      <artifactId>tarry-client</artifactId>
      <version>$version</version>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <artifactId>maven-compiler-plugin</artifactId>
        <version>3.13.0</version>
      </plugin>
    </plugins>
  </build>
</project>
END
cat > "$project/src/main/java/Shop.java" <<'END'
import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Push;
import io.tarry.Worker;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

public class Shop {
    public static void main(String[] arguments) throws Exception {
        String topic = "check-java-" + System.nanoTime();
        CompletableFuture<Job> came = new CompletableFuture<>();
        try (Client client = new Client(); Worker worker = Worker.builder(client, topic, came::complete).start()) {
            client.push(new Push(topic, Map.of("order", 1001)).delay(Duration.ofMillis(100)));
            System.out.println("took " + came.get(10, TimeUnit.SECONDS).jsonObject());
            worker.stop(Duration.ofSeconds(5));
        }
    }
}
END
(cd "$project" && $mvn compiler:compile)
java -cp "$project/target/classes:build/tarry-client-$version.jar" Shop
