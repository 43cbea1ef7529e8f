// Names that Newtonsoft.Json has since version 9, for the version 5 of Debian. The client names each member itself, so they have no effect.
namespace TarryApi
{
    public class CamelCaseNamingStrategy
    {
        public bool OverrideSpecifiedNames { get; set; }
    }

    public class DefaultContractResolver : Newtonsoft.Json.Serialization.DefaultContractResolver
    {
        public CamelCaseNamingStrategy NamingStrategy { get; set; }
    }
}
